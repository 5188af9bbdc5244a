import type { Kind, KubeObject } from '../kind/index.ts';
import { ApiError } from './api-error.ts';
import type { RequestOptions } from './client.ts';
import { groupVersionPath } from './resource-path.ts';
import type { Transport } from './transport.ts';

/** Identifies a kind by its name (`Deployment`) or by its plural (`deployments`). The API server may not serve it. */
export type KindReference =
  | { readonly group: string; readonly version: string; readonly kind: string }
  | { readonly group: string; readonly version: string; readonly plural: string };

/** A kind as the API server serves it. */
export interface RestMapping<T extends KubeObject = KubeObject> {
  readonly kind: Kind<T>;
  /** The supported verbs: get, list, watch, create, update, patch, delete, deletecollection. */
  readonly verbs: readonly string[];
  /** The names of its subresources: status, scale … */
  readonly subresources: readonly string[];
}

/** The API server does not serve a kind: its CustomResourceDefinition is missing or has other versions. */
export class NotServedError extends Error {
  override readonly name = 'NotServedError';
  readonly reference: KindReference;

  /** @param kinds the kinds that the server does serve in this group and version. */
  constructor(reference: KindReference, kinds: readonly string[], options?: ErrorOptions) {
    const { group, version } = reference;
    const name = 'kind' in reference ? `kind ${reference.kind}` : `resource ${reference.plural}`;
    const place = group === '' ? `the core group, ${version}` : `${group}/${version}`;
    const served = kinds.length === 0 ? 'it serves no kinds there' : `it serves ${kinds.join(', ')}`;
    super(`the API server does not serve the ${name} of ${place}; ${served}`, options);
    this.reference = reference;
  }
}

/** One entry of an APIResourceList. */
interface ApiResource {
  /** The plural; for a subresource, `plural/subresource`. */
  readonly name: string;
  readonly kind: string;
  readonly namespaced: boolean;
  readonly verbs: readonly string[];
}

/** The kinds of one group and version. */
interface GroupVersion {
  readonly byKind: ReadonlyMap<string, RestMapping>;
  readonly byPlural: ReadonlyMap<string, RestMapping>;
}

/**
 * Looks up kinds in the API server's discovery: for example the plural and the scope of a kind known only by an object's
 * `apiVersion` and `kind`. Each group and version is requested once and then cached; a lookup that finds nothing in the
 * cache requests it again, because a CustomResourceDefinition may have been installed since.
 *
 * @example
 * const { kind } = await new Discovery(transport).mapping({ group: 'apps', version: 'v1', kind: 'Deployment' });
 * await client.list(kind, { namespace: 'default' });
 */
export class Discovery {
  readonly #transport: Transport;
  readonly #groupVersions = new Map<string, GroupVersion>();

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Looks up one kind.
   *
   * @typeParam T the type of the kind's objects. It is not checked: discovery knows nothing about it.
   * @throws NotServedError if the server does not serve the kind; ApiError and NoResponseError as every request.
   */
  async mapping<T extends KubeObject = KubeObject>(
    reference: KindReference,
    options?: RequestOptions,
  ): Promise<RestMapping<T>> {
    const { group, version } = reference;
    const path = groupVersionPath(group, version);
    const known = find(this.#groupVersions.get(path), reference);
    if (known !== undefined) return known as RestMapping<T>;
    const groupVersion = await this.#read(path, reference, options);
    const found = find(groupVersion, reference);
    if (found === undefined) throw new NotServedError(reference, [...groupVersion.byKind.keys()]);
    return found as RestMapping<T>;
  }

  async #read(path: string, reference: KindReference, options?: RequestOptions): Promise<GroupVersion> {
    try {
      const list = await this.#transport.request({ method: 'GET', path, signal: options?.signal });
      const groupVersion = groupVersionOf(
        reference,
        (list as { readonly resources: readonly ApiResource[] }).resources,
      );
      this.#groupVersions.set(path, groupVersion);
      return groupVersion;
    } catch (error) {
      // The server responds to an unknown path in plain text without a reason, so `isNotFound` does not match.
      if (error instanceof ApiError && error.code === 404) throw new NotServedError(reference, [], { cause: error });
      throw error;
    }
  }
}

function find(groupVersion: GroupVersion | undefined, reference: KindReference): RestMapping | undefined {
  if (groupVersion === undefined) return undefined;
  return 'kind' in reference ? groupVersion.byKind.get(reference.kind) : groupVersion.byPlural.get(reference.plural);
}

function groupVersionOf({ group, version }: KindReference, resources: readonly ApiResource[]): GroupVersion {
  const byKind = new Map<string, RestMapping>();
  const byPlural = new Map<string, RestMapping>();
  for (const { name: plural, kind, namespaced, verbs } of resources) {
    if (plural.includes('/')) continue;
    const prefix = `${plural}/`;
    const subresources = resources
      .filter(({ name }) => name.startsWith(prefix))
      .map(({ name }) => name.slice(prefix.length));
    const scope = namespaced ? 'Namespaced' : 'Cluster';
    const mapping: RestMapping = { kind: { group, version, kind, plural, scope }, verbs, subresources };
    byPlural.set(plural, mapping);
    byKind.set(kind, mapping);
  }
  return { byKind, byPlural };
}
