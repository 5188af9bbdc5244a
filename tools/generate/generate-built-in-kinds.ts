/**
 * Generates packages/runtime/src/built-in-kinds/built-in-kinds.ts: a constant and a type for each kind that the API server
 * serves in a stable version. The source is the OpenAPI document of the Kubernetes version that
 * tools/programs/kubernetes pins.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { formatSource } from './format-source.ts';
import { goModuleFolders } from './go-modules.ts';

/** The generated file, as a path in the repository. */
export const builtInKindsFile = 'packages/runtime/src/built-in-kinds/built-in-kinds.ts';

/** The part of Kubernetes' OpenAPI document that is read: operations and parameters by path. */
export interface OpenApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** A resource that has a path of its own. Subresources have none. */
interface Resource {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly scope: 'Namespaced' | 'Cluster';
}

/** A constant of the generated file. */
export interface BuiltInKind extends Resource {
  /** The kind. If the core group and another group share a kind, the name for the core group begins with `Core`. */
  readonly name: string;
  /** The class of @kubernetes/client-node that types its objects. */
  readonly objectType: string;
}

/** Matches a resource's collection. Versions like v1beta1 do not match. */
const collectionPath =
  /^\/(?:api|apis\/(?<group>[^/]+))\/(?<version>v\d+)\/(?<namespaced>namespaces\/\{namespace\}\/)?(?<plural>[^/]+)$/;

function resourceAt(path: string, operations: Readonly<Record<string, unknown>>): Resource | undefined {
  const { group = '', version, namespaced, plural } = collectionPath.exec(path)?.groups ?? {};
  if (version === undefined || plural === undefined) return undefined;
  const kind = Object.values(operations)
    .map(kindOfOperation)
    .find((each) => each !== undefined);
  if (kind === undefined) throw new Error(`no operation of ${path} names its kind`);
  return { group, version, kind, plural, scope: namespaced === undefined ? 'Cluster' : 'Namespaced' };
}

function kindOfOperation(operation: unknown): string | undefined {
  const extended = operation as { readonly 'x-kubernetes-group-version-kind'?: { readonly kind: string } };
  return extended['x-kubernetes-group-version-kind']?.kind;
}

const versionNumber = ({ version }: Resource): number => Number(version.slice(1));

/** Whether `resource` replaces one of the same group and plural. */
function replaces(resource: Resource, found: Resource): boolean {
  if (resource.version !== found.version) return versionNumber(resource) > versionNumber(found);
  // A namespaced resource also has a path without a namespace, which lists it in all of them.
  return resource.scope === 'Namespaced';
}

function typeOfObjects({ group, version, kind }: Resource, objectTypes: ReadonlySet<string>): string {
  const [domain = ''] = (group === '' ? 'core' : group).split('.');
  const unambiguous = `${capitalized(version)}${kind}`;
  // The client's generator puts the group in front where several groups have a type of that name.
  const found = [`${capitalized(domain)}${unambiguous}`, unambiguous].find((name) => objectTypes.has(name));
  if (found === undefined)
    throw new Error(`@kubernetes/client-node has no type ${unambiguous} for ${group}/${version}`);
  return found;
}

const capitalized = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);

const byGroupAndName = (a: BuiltInKind, b: BuiltInKind): number =>
  a.group === b.group ? (a.name < b.name ? -1 : 1) : a.group < b.group ? -1 : 1;

/**
 * The kinds of every stable version in the document; where a group has several, the newest.
 *
 * @param objectTypes the names of the types that @kubernetes/client-node exports
 * @throws Error if a kind has no such type, or if two groups besides the core group share a kind.
 */
export function findBuiltInKinds({ paths }: OpenApiDocument, objectTypes: ReadonlySet<string>): readonly BuiltInKind[] {
  const resources = new Map<string, Resource>();
  for (const [path, operations] of Object.entries(paths)) {
    const resource = resourceAt(path, operations);
    if (resource === undefined) continue;
    const key = `${resource.group}/${resource.plural}`;
    const found = resources.get(key);
    if (found === undefined || replaces(resource, found)) resources.set(key, resource);
  }
  const groupOfName = new Map<string, string>();
  const kinds = [...resources.values()].map((resource) => {
    const { group, kind } = resource;
    const isShared = [...resources.values()].some((other) => other.kind === kind && other.group !== group);
    const name = group === '' && isShared ? `Core${kind}` : kind;
    const other = groupOfName.get(name);
    if (other !== undefined) throw new Error(`${group} and ${other} both have a kind ${name}: choose a name for one`);
    groupOfName.set(name, group);
    return { ...resource, name, objectType: typeOfObjects(resource, objectTypes) };
  });
  return kinds.sort(byGroupAndName);
}

const groupVersionOf = ({ group, version }: Resource): string => (group === '' ? version : `${group}/${version}`);

function declaration({ name, objectType, group, version, kind, plural, scope }: BuiltInKind): string {
  const fields = { group, version, kind, plural, ...(scope === 'Cluster' && { scope }) };
  return `export const ${name}: Kind<BuiltIn<clientNode.${objectType}>> = /* @__PURE__ */ builtInKind(${JSON.stringify(fields)});
export type ${name} = ObjectOf<typeof ${name}>;`;
}

/** The file's source before it is formatted. */
export function renderBuiltInKinds(kinds: readonly BuiltInKind[]): string {
  const sections = Object.entries(Object.groupBy(kinds, groupVersionOf)).map(
    ([groupVersion, members = []]) => `// ${groupVersion}\n\n${members.map(declaration).join('\n\n')}\n`,
  );
  return `// Generated by tools/generate/generate-built-in-kinds.ts from Kubernetes' OpenAPI document: change it there.
import type * as clientNode from '@kubernetes/client-node';
import { builtInKind, type Kind, type ObjectOf } from '../kind/kind.ts';
import type { BuiltIn } from '../kind/object.ts';

${sections.join('\n')}`;
}

/** Returns the content of the generated file. */
export async function builtInKinds(): Promise<string> {
  // Imported on demand, because it is large and the other functions do not need it.
  const clientNode = await import('@kubernetes/client-node');
  const { 'k8s.io/kubernetes': kubernetes } = await goModuleFolders(['k8s.io/kubernetes']);
  const document = JSON.parse(await readFile(join(kubernetes, 'api/openapi-spec/swagger.json'), 'utf8'));
  const kinds = findBuiltInKinds(document as OpenApiDocument, new Set(Object.keys(clientNode)));
  return formatSource(builtInKindsFile, renderBuiltInKinds(kinds));
}
