import { parseAllDocuments } from 'yaml';

/** One version of an imported CustomResourceDefinition. */
export interface ImportedKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly scope: 'Namespaced' | 'Cluster';
  /** The OpenAPI schema of the objects. Undefined: any object. */
  readonly schema: unknown;
}

/** The members of a CustomResourceDefinition that the import reads. */
export interface ImportedDefinition {
  readonly kind?: string | undefined;
  readonly apiVersion?: string | undefined;
  readonly spec?: {
    readonly group?: string;
    readonly names?: { readonly kind?: string; readonly plural?: string };
    readonly scope?: string;
    readonly versions?: readonly {
      readonly name?: string;
      readonly served?: boolean;
      readonly storage?: boolean;
      readonly schema?: { readonly openAPIV3Schema?: unknown };
    }[];
  };
}

/**
 * Returns the CustomResourceDefinitions in a YAML text, which may hold other objects too.
 *
 * @param source where the text comes from, for the message of an error.
 * @throws Error if the text is not YAML, or has no CustomResourceDefinition of `apiextensions.k8s.io/v1`.
 */
export function readDefinitions(text: string, source: string): readonly ImportedDefinition[] {
  const documents = parseAllDocuments(text);
  const [error] = documents.flatMap(({ errors }) => errors);
  if (error !== undefined) throw new Error(`${source} is not YAML: ${error.message}`, { cause: error });
  const objects = documents.map((document) => document.toJS() as unknown);
  const definitions = objects.flatMap(itemsOf).filter(isDefinition);
  if (definitions.length === 0) throw new Error(`${source} has no CustomResourceDefinition of apiextensions.k8s.io/v1`);
  return definitions;
}

/** The objects of a list, as `kubectl get crds -o yaml` prints it, or the object itself. */
function itemsOf(object: unknown): readonly unknown[] {
  const { kind, items } = (object ?? {}) as { readonly kind?: unknown; readonly items?: unknown };
  return kind === 'List' && Array.isArray(items) ? items : [object];
}

function isDefinition(object: unknown): object is ImportedDefinition {
  const { kind, apiVersion } = (object ?? {}) as ImportedDefinition;
  return kind === 'CustomResourceDefinition' && apiVersion === 'apiextensions.k8s.io/v1';
}

/**
 * Returns the chosen version of a definition's kind.
 *
 * @param version default: the stored version if it is served, otherwise the first served one.
 * @throws Error if the version is not served, or a name is not one that the API server accepts.
 */
export function kindOf({ spec = {} }: ImportedDefinition, version?: string): ImportedKind {
  const { group = '', names = {}, scope = 'Namespaced', versions = [] } = spec;
  const { kind = '', plural = '' } = names;
  const served = versions.filter((each) => each.served);
  const found =
    version === undefined
      ? (served.find(({ storage }) => storage) ?? served[0])
      : served.find(({ name }) => name === version);
  const all = served.map(({ name }) => name).join(', ') || 'none';
  if (found === undefined) throw new Error(`${plural}.${group} serves no version ${version ?? ''}: it serves ${all}`);
  // The names become part of a module and of URLs.
  const checks = [
    ['group', group, /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/],
    ['plural', plural, /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/],
    ['kind', kind, /^[A-Za-z][A-Za-z0-9]*$/],
    ['version', found.name ?? '', /^[a-z]([a-z0-9-]*[a-z0-9])?$/],
    ['scope', scope, /^(Namespaced|Cluster)$/],
  ] as const;
  for (const [what, name, pattern] of checks)
    if (!pattern.test(name)) throw new Error(`the ${what} of a CustomResourceDefinition is ${JSON.stringify(name)}`);
  return {
    group,
    version: found.name ?? '',
    kind,
    plural,
    scope: scope === 'Cluster' ? 'Cluster' : 'Namespaced',
    schema: found.schema?.openAPIV3Schema,
  };
}
