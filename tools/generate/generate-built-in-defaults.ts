/**
 * Generates packages/testing/src/simulation/built-in-defaults.ts: the fields of the structs of built-in kinds, and the
 * values that the API server gives to those that a manifest lacks. The fields come from client-go's schema for
 * server-side apply. The values are recorded: dry runs create samples of each struct on an API server of the version
 * that tools/programs/kubernetes pins.
 */
import { isDeepStrictEqual } from 'node:util';
import { createClient } from '@echoperator/runtime/client';
import { apiVersionOf } from '@echoperator/runtime/internal';
import { ApiServer } from '@echoperator/testing';
import { ensureBinFolder } from '../programs/index.ts';
import { builtInSamples } from './built-in-samples.ts';
import { formatSource } from './format-source.ts';
import { namedTypes, shortName, type Typed } from './generate-built-in-types.ts';
import { goModuleFolders } from './go-modules.ts';

/** The generated file, as a path in the repository. */
export const builtInDefaultsFile = 'packages/testing/src/simulation/built-in-defaults.ts';

/** The programs that record the defaults. */
const programs = ['etcd', 'kube-apiserver'] as const;

/** Fields whose default depends on something else, so that built-in-resources.ts computes it. */
const computed: ReadonlySet<string> = new Set([
  'apps.v1.DeploymentStrategy.rollingUpdate',
  'apps.v1.StatefulSetUpdateStrategy.rollingUpdate',
  'batch.v1.JobSpec.backoffLimit',
  'batch.v1.JobSpec.completionMode',
  'batch.v1.JobSpec.completions',
  'batch.v1.JobSpec.manualSelector',
  'batch.v1.JobSpec.parallelism',
  'batch.v1.JobSpec.podReplacementPolicy',
  'batch.v1.JobSpec.selector',
  'batch.v1.JobSpec.suspend',
  'core.v1.Container.imagePullPolicy',
  'core.v1.NamespaceSpec.finalizers',
  'core.v1.NamespaceStatus.phase',
  'core.v1.PersistentVolumeClaim.apiVersion',
  'core.v1.PersistentVolumeClaim.kind',
  'core.v1.PersistentVolumeClaimStatus.phase',
  'core.v1.PodSpec.enableServiceLinks',
  'core.v1.PodSpec.preemptionPolicy',
  'core.v1.PodSpec.priority',
  'core.v1.PodSpec.tolerations',
  'core.v1.PodStatus.phase',
  'core.v1.PodStatus.qosClass',
  'core.v1.ServicePort.targetPort',
  'core.v1.ServiceSpec.clusterIP',
  'core.v1.ServiceSpec.clusterIPs',
  'core.v1.ServiceSpec.internalTrafficPolicy',
  'core.v1.ServiceSpec.ipFamilies',
  'core.v1.ServiceSpec.ipFamilyPolicy',
  'core.v1.Volume.emptyDir',
]);

type Json = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Records the defaults of structs. */
class Recorder {
  readonly #types: ReadonlyMap<string, Typed>;
  /** By the short names of structs, each instance with the values of the fields that it lacked. */
  readonly #instances = new Map<string, Map<string, unknown>[]>();
  readonly #sentFields = new Map<string, Set<string>[]>();

  constructor(types: ReadonlyMap<string, Typed>) {
    this.#types = types;
  }

  /** @param type the full name of the object's type */
  record(type: string, sent: unknown, stored: unknown): void {
    const fields = this.#types.get(type)?.map?.fields;
    if (fields === undefined || !isObject(stored)) return;
    const given = isObject(sent) ? sent : {};
    const name = shortName(type);
    const added = new Map(Object.entries(stored).filter(([field]) => !Object.hasOwn(given, field)));
    this.#instances.set(name, [...(this.#instances.get(name) ?? []), added]);
    this.#sentFields.set(name, [...(this.#sentFields.get(name) ?? []), new Set(Object.keys(given))]);
    for (const field of fields) {
      const isComputed = computed.has(`${name}.${field.name}`) && !Object.hasOwn(given, field.name);
      if (!isComputed) this.#recordValue(field.type, given[field.name], stored[field.name]);
    }
  }

  #recordValue(type: Typed, sent: unknown, stored: unknown): void {
    if (type.namedType !== undefined) this.record(type.namedType, sent, stored);
    const elements = type.list?.elementType.namedType;
    if (elements === undefined || !Array.isArray(stored) || !Array.isArray(sent)) return;
    for (const [index, item] of sent.entries()) this.record(elements, item, stored[index]);
  }

  /**
   * Returns the recorded structs, sorted by name.
   *
   * @throws Error if a default differs between two instances and is not in {@link computed}
   */
  structs(): readonly Recorded[] {
    const fullNames = new Map([...this.#types.keys()].map((name) => [shortName(name), name]));
    return [...this.#instances]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, instances]) => {
        const fields = this.#types.get(fullNames.get(name) ?? '')?.map?.fields ?? [];
        const defaults = fields.flatMap((field) => this.#defaultOf(name, field, instances));
        return { name, fields, defaults: Object.fromEntries(defaults) };
      });
  }

  #defaultOf(
    name: string,
    { name: field, type }: Recorded['fields'][number],
    instances: readonly Map<string, unknown>[],
  ): readonly (readonly [string, unknown])[] {
    if (computed.has(`${name}.${field}`)) return [];
    const lacking = instances.filter((_, index) => this.#sentFields.get(name)?.[index]?.has(field) === false);
    const [first] = lacking.filter((instance) => instance.has(field));
    if (first === undefined) return [];
    const isStruct = this.#types.get(type.namedType ?? '')?.map?.fields !== undefined;
    // The defaults of a struct's own fields are recorded with the struct.
    const valueIn = (instance: Map<string, unknown>): unknown =>
      isStruct && instance.has(field) ? {} : instance.get(field);
    if (!lacking.every((instance) => isDeepStrictEqual(valueIn(instance), valueIn(first)))) {
      throw new Error(`the default of ${name}.${field} differs between the samples: compute it`);
    }
    return [[field, valueIn(first)]];
  }
}

interface Recorded {
  readonly name: string;
  readonly fields: NonNullable<NonNullable<Typed['map']>['fields']>;
  readonly defaults: Json;
}

/** Returns what the API server would store for each sample. */
async function recordSamples(types: ReadonlyMap<string, Typed>): Promise<readonly Recorded[]> {
  const recorder = new Recorder(types);
  await using server = await ApiServer.start({ assets: await ensureBinFolder(programs) });
  const client = createClient(server.connection, { fieldManager: 'generate' });
  try {
    for (const { kind, content } of builtInSamples) {
      const namespace = kind.scope === 'Namespaced' ? 'default' : undefined;
      const metadata = { name: 'sample', ...(namespace && { namespace }) };
      const stored = await client.create(kind, { metadata, ...content }, { dryRun: true });
      const { apiVersion, kind: _, metadata: __, ...rest } = stored as typeof stored & Json;
      const [group = ''] = (kind.group || 'core').split('.');
      const type = [...types.keys()].find((name) => shortName(name) === `${group}.${kind.version}.${kind.kind}`);
      if (type === undefined) throw new Error(`there is no type for ${apiVersionOf(kind)} ${kind.kind}`);
      recorder.record(type, content, rest);
      // Every object has metadata, whose fields the server itself sets.
      recorder.record('io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta', {}, {});
    }
    return recorder.structs();
  } finally {
    await client.close();
  }
}

const scalarOf = (type: Typed, types: ReadonlyMap<string, Typed>): string | undefined =>
  type.scalar ?? types.get(type.namedType ?? '')?.scalar;

function literal({ name, fields, defaults }: Recorded, types: ReadonlyMap<string, Typed>): string {
  const groups = Object.groupBy(fields, ({ type }) => scalarOf(type, types) ?? 'other');
  const names = (group: string): string => JSON.stringify((groups[group] ?? []).map((field) => field.name).join(' '));
  const others = [...(groups.untyped ?? []), ...(groups.other ?? [])].map((field) => field.name).join(' ');
  const parts = [names('string'), names('numeric'), names('boolean'), JSON.stringify(others)];
  const given = Object.keys(defaults).length > 0 ? [JSON.stringify(defaults)] : [];
  return `'${name}': struct(${[...parts, ...given].join(', ')}),`;
}

/** Returns the content of the generated file. */
export async function builtInDefaults(): Promise<string> {
  const types = await namedTypes(await goModuleFolders(['k8s.io/client-go']));
  const structs = await recordSamples(types);
  const source = `// Generated by tools/generate/generate-built-in-defaults.ts from an API server's responses: change it there.

/** The fields of a struct of built-in kinds. */
export interface RecordedStruct {
  readonly strings: string;
  readonly numbers: string;
  readonly booleans: string;
  /** Lists, maps, structs, quantities, times, and numbers that may be strings. */
  readonly others: string;
  /** What the API server stores in fields that are missing. \`{}\` stands for a struct with its own defaults. */
  readonly defaults: Readonly<Record<string, unknown>>;
}

/** Each parameter but the last has the names of fields, separated by spaces. */
const struct = (
  strings: string,
  numbers: string,
  booleans: string,
  others: string,
  defaults: RecordedStruct['defaults'] = {},
): RecordedStruct => ({ strings, numbers, booleans, others, defaults });

/** The structs by \`group.version.Name\`. A struct that is missing has no recorded defaults. */
export const builtInDefaults: Readonly<Record<string, RecordedStruct>> = {
${structs.map((recorded) => literal(recorded, types)).join('\n')}
};
`;
  return formatSource(builtInDefaultsFile, source);
}
