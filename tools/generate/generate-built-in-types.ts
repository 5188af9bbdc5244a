/**
 * Generates packages/runtime/src/apply/built-in-types.ts: how the API server merges the fields of built-in kinds, which
 * fields it stores when they are zero, and which an empty object has. The sources are client-go's schema for
 * server-side apply and the Go types of k8s.io/api, in the versions that tools/programs/kubernetes pins.
 */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import type { ListKey, Schema } from '../../packages/runtime/src/apply/schema.ts';
import { formatSource } from './format-source.ts';
import { goModuleFolders } from './go-modules.ts';

/** The generated file, as a path in the repository. */
export const builtInTypesFile = 'packages/runtime/src/apply/built-in-types.ts';

/** The Go modules that contain the sources. */
const modules = ['k8s.io/api', 'k8s.io/apimachinery', 'k8s.io/client-go'] as const;

type Folders = Readonly<Record<(typeof modules)[number], string>>;

/** The built-in kinds that operators usually create. */
const kinds = [
  'apps.v1.DaemonSet',
  'apps.v1.Deployment',
  'apps.v1.ReplicaSet',
  'apps.v1.StatefulSet',
  'autoscaling.v2.HorizontalPodAutoscaler',
  'batch.v1.CronJob',
  'batch.v1.Job',
  'coordination.v1.Lease',
  'core.v1.ConfigMap',
  'core.v1.LimitRange',
  'core.v1.Namespace',
  'core.v1.PersistentVolume',
  'core.v1.PersistentVolumeClaim',
  'core.v1.Pod',
  'core.v1.ResourceQuota',
  'core.v1.Secret',
  'core.v1.Service',
  'core.v1.ServiceAccount',
  'discovery.v1.EndpointSlice',
  'events.v1.Event',
  'networking.v1.Ingress',
  'networking.v1.NetworkPolicy',
  'policy.v1.PodDisruptionBudget',
  'rbac.v1.ClusterRole',
  'rbac.v1.ClusterRoleBinding',
  'rbac.v1.Role',
  'rbac.v1.RoleBinding',
  'scheduling.v1.PriorityClass',
  'storage.v1.StorageClass',
];

/** A type of structured-merge-diff's schema. */
export interface Typed {
  readonly scalar?: string;
  readonly namedType?: string;
  readonly elementRelationship?: string;
  readonly map?: {
    readonly fields?: readonly { readonly name: string; readonly type: Typed; readonly default?: unknown }[];
    readonly elementType?: Typed;
    readonly elementRelationship?: string;
  };
  readonly list?: {
    readonly elementType: Typed;
    readonly elementRelationship: 'atomic' | 'associative';
    readonly keys?: readonly string[];
  };
}

const quantity = 'io.k8s.apimachinery.pkg.api.resource.Quantity';

/**
 * `io.k8s.api.core.v1.Pod` → `core.v1.Pod`, `io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta` → `meta.v1.ObjectMeta`
 */
export const shortName = (name: string): string => name.split('.').slice(-3).join('.');

/** Returns the types of client-go's schema for server-side apply, by their full names. */
export async function namedTypes(
  folders: Readonly<Record<'k8s.io/client-go', string>>,
): Promise<ReadonlyMap<string, Typed>> {
  const file = join(folders['k8s.io/client-go'], 'applyconfigurations/internal/internal.go');
  const source = await readFile(file, 'utf8');
  const yaml = source.slice(source.indexOf('`types:') + 1, source.lastIndexOf('`)'));
  const { types } = parse(yaml) as { readonly types: readonly ({ readonly name: string } & Typed)[] };
  return new Map(types.map((type) => [type.name, type]));
}

/** A field of a Go struct. */
interface GoField {
  readonly isPointer: boolean;
  readonly omits: 'zero' | 'empty' | 'nothing';
}

/** Returns the fields of each Go struct in a package. */
async function goFields(name: string, folders: Folders): Promise<ReadonlyMap<string, ReadonlyMap<string, GoField>>> {
  const [group = '', version = ''] = name.split('.');
  const folder =
    group === 'meta'
      ? join(folders['k8s.io/apimachinery'], 'pkg/apis/meta', version)
      : join(folders['k8s.io/api'], group, version);
  const source = await readFile(join(folder, 'types.go'), 'utf8');
  const structs = new Map<string, { readonly own: Map<string, GoField>; readonly inlined: string[] }>();
  for (const [, struct = '', body = ''] of source.matchAll(/^type (\w+) struct \{\n([\s\S]*?)^\}/gm)) {
    const own = new Map<string, GoField>();
    for (const [, type = '', field = '', options = ''] of body.matchAll(
      /^\t(?:\w+\s+)?(\S+)\s+`json:"(\w+)([^"]*)"/gm,
    )) {
      const omits = options.includes('omitzero') ? 'zero' : options.includes('omitempty') ? 'empty' : 'nothing';
      own.set(field, { isPointer: type.startsWith('*'), omits });
    }
    const inlined = [...body.matchAll(/^\t(\w+)\s+`json:",inline/gm)].map(([, type = '']) => type);
    structs.set(struct, { own, inlined });
  }
  const withInlined = (struct: string): ReadonlyMap<string, GoField> => {
    const { own = new Map<string, GoField>(), inlined = [] } = structs.get(struct) ?? {};
    return new Map([...inlined.flatMap((type) => [...withInlined(type)]), ...own]);
  };
  return new Map([...structs.keys()].map((struct) => [struct, withInlined(struct)]));
}

const dropsZero: Schema = { type: 'scalar', keepsZero: false };

/** The API server keeps a zero scalar only in these fields. */
const keepsZeroScalar = ({ isPointer, omits }: GoField): boolean => isPointer || omits === 'nothing';

/** True if an empty object has the field. Go's omitempty omits no struct. */
const isAlwaysPresent = ({ isPointer, omits }: GoField, { type }: Schema): boolean =>
  omits === 'nothing' ? ['ref', 'list', 'map'].includes(type) : omits === 'empty' && !isPointer && type === 'ref';

/** Converts the structs of kinds to schemas. */
class Structs {
  readonly #folders: Folders;
  readonly #types: ReadonlyMap<string, Typed>;
  readonly #goFields = new Map<string, ReturnType<typeof goFields>>();
  readonly #written = new Map<string, Schema>();

  constructor(folders: Folders, types: ReadonlyMap<string, Typed>) {
    this.#folders = folders;
    this.#types = types;
  }

  /** The schemas sorted by their short names. */
  get schemas(): readonly (readonly [name: string, schema: Schema])[] {
    return [...this.#written].sort(([a], [b]) => (a < b ? -1 : 1));
  }

  /** @param kind `group.version.Kind` */
  async add(kind: string): Promise<void> {
    const name = `io.k8s.api.${kind}`;
    const type = this.#types.get(name);
    if (type === undefined) throw new Error(`there is no type ${name}`);
    await this.#write(shortName(name), type);
  }

  async #goField(type: string, field: string): Promise<GoField> {
    const [group, version, name = ''] = type.split('.');
    const key = `${group}.${version}`;
    const inPackage = this.#goFields.get(key) ?? goFields(key, this.#folders);
    this.#goFields.set(key, inPackage);
    return (await inPackage).get(name)?.get(field) ?? { isPointer: false, omits: 'zero' };
  }

  async #schemaOf(type: Typed, keepsZero: boolean): Promise<Schema> {
    const { namedType, scalar, list, map } = type;
    if (namedType === quantity) return { type: 'quantity' };
    if (namedType !== undefined) {
      const named = this.#types.get(namedType);
      if (named?.map?.fields === undefined) return { type: 'scalar', keepsZero };
      const { elementRelationship = named.map.elementRelationship ?? 'separable' } = type;
      const isAsNamed = elementRelationship === (named.map.elementRelationship ?? 'separable');
      // A field can override how its type is merged, for example a PersistentVolume's claimRef.
      const name = isAsNamed ? shortName(namedType) : `${shortName(namedType)}.${elementRelationship}`;
      await this.#write(name, { map: { ...named.map, elementRelationship } });
      return { type: 'ref', name };
    }
    if (list !== undefined) {
      const items = await this.#schemaOf(list.elementType, true);
      return { type: 'list', merge: this.#mergeOf(list), items, emptyIsAbsent: true };
    }
    if (map?.elementType !== undefined) {
      const values = await this.#schemaOf(map.elementType, true);
      const atomic = map.elementRelationship === 'atomic';
      return { type: 'map', values, emptyIsAbsent: true, ...(atomic && { atomic }) };
    }
    return scalar === undefined ? { type: 'schemaless' } : { type: 'scalar', keepsZero };
  }

  #mergeOf({ elementRelationship, keys, elementType }: NonNullable<Typed['list']>) {
    if (elementRelationship === 'atomic') return 'atomic';
    if (keys === undefined) return 'set';
    const fields = this.#types.get(elementType.namedType ?? '')?.map?.fields ?? [];
    return keys.map((name): ListKey => {
      const value = fields.find((field) => field.name === name)?.default;
      return typeof value === 'string' || typeof value === 'number' ? { name, default: value } : { name };
    });
  }

  /** @param short for example `core.v1.Pod`, with a suffix if a field overrides how the type is merged */
  async #write(short: string, type: Typed): Promise<void> {
    if (this.#written.has(short)) return;
    const fields: Record<string, Schema> = {};
    const alwaysPresent: string[] = [];
    const atomic = type.map?.elementRelationship === 'atomic';
    // Set before the fields are converted, because types can be recursive.
    this.#written.set(short, { type: 'struct', fields, others: dropsZero, alwaysPresent, ...(atomic && { atomic }) });
    for (const field of type.map?.fields ?? []) {
      if (field.name === 'managedFields') continue;
      const goField = await this.#goField(short, field.name);
      const schema = await this.#schemaOf(field.type, keepsZeroScalar(goField));
      if (isAlwaysPresent(goField, schema)) alwaysPresent.push(field.name);
      if (schema.type !== 'scalar' || schema.keepsZero) fields[field.name] = schema;
    }
  }
}

function literal(schema: Schema): string {
  switch (schema.type) {
    case 'scalar':
      return schema.keepsZero ? 'keepsZero' : 'dropsZero';
    case 'quantity':
      return 'quantity';
    case 'schemaless':
      throw new Error('a field of a built-in kind has no type');
    case 'ref':
      return `ref('${schema.name}')`;
    case 'map':
      return `${schema.atomic ? 'atomicMap' : 'map'}(${literal(schema.values)})`;
    case 'list':
      if (schema.merge === 'atomic') return `list(${literal(schema.items)})`;
      if (schema.merge === 'set') return `set(${literal(schema.items)})`;
      return `listBy(${literal(schema.items)}, ${schema.merge.map((key) => JSON.stringify(key)).join(', ')})`;
    case 'struct': {
      const fields = Object.entries(schema.fields).map(([name, field]) => `${name}: ${literal(field)}`);
      const always = schema.alwaysPresent?.map((name) => `, '${name}'`).join('') ?? '';
      return `${schema.atomic ? 'atomicStruct' : 'struct'}({ ${fields.join(', ')} }${always})`;
    }
  }
}

const render = (
  schemas: Structs['schemas'],
): string => `// Generated by tools/generate/generate-built-in-types.ts from Kubernetes' own schema: change it there.
import type { ListKey, Schema } from './schema.ts';

const keepsZero: Schema = { type: 'scalar', keepsZero: true };
const dropsZero: Schema = { type: 'scalar', keepsZero: false };
const quantity: Schema = { type: 'quantity' };
const ref = (name: string): Schema => ({ type: 'ref', name });
const map = (values: Schema): Schema => ({ type: 'map', values, emptyIsAbsent: true });
const atomicMap = (values: Schema): Schema => ({ type: 'map', values, emptyIsAbsent: true, atomic: true });
const list = (items: Schema): Schema => ({ type: 'list', merge: 'atomic', items, emptyIsAbsent: true });
const set = (items: Schema): Schema => ({ type: 'list', merge: 'set', items, emptyIsAbsent: true });
const listBy = (items: Schema, ...merge: ListKey[]): Schema => ({ type: 'list', merge, items, emptyIsAbsent: true });
const struct = (fields: Record<string, Schema>, ...alwaysPresent: string[]): Schema => ({ type: 'struct', fields, others: dropsZero, alwaysPresent });
const atomicStruct = (fields: Record<string, Schema>, ...alwaysPresent: string[]): Schema => ({ type: 'struct', fields, others: dropsZero, alwaysPresent, atomic: true });

/** The structs of the API server's own kinds by \`group.version.Name\`. */
export const builtInTypes: Readonly<Record<string, Schema>> = {
${schemas.map(([name, schema]) => `'${name}': ${literal(schema)},`).join('\n')}
};
`;

/** Returns the content of the generated file. */
export async function builtInTypes(): Promise<string> {
  const folders = await goModuleFolders(modules);
  const structs = new Structs(folders, await namedTypes(folders));
  for (const kind of kinds) await structs.add(kind);
  return formatSource(builtInTypesFile, render(structs.schemas));
}
