import type { Kind, KubeObject } from '../kind/index.ts';
import { ApiError } from './api-error.ts';
import type { RequestOptions } from './client.ts';
import { groupVersionPath } from './resource-path.ts';
import type { Transport } from './transport.ts';

/** Names a kind that the API server may or may not serve: by its kind, or by its plural, as it stands in URLs. */
export type KindReference =
  | { readonly group: string; readonly version: string; readonly kind: string }
  | { readonly group: string; readonly version: string; readonly plural: string };

/** A kind as the API server serves it. */
export interface RestMapping<T extends KubeObject = KubeObject> {
  readonly kind: Kind<T>;
  /** What can be asked of it: get, list, watch, create, update, patch, delete, deletecollection. */
  readonly verbs: readonly string[];
  /** Its subresources: status, scale … */
  readonly subresources: readonly string[];
}

/** The API server does not serve a kind: its definition is not installed, or the version is another one. */
export class NotServedError extends Error {
  override readonly name = 'NotServedError';
  readonly reference: KindReference;

  /** @param kinds what is served under that group and version instead. */
  constructor(reference: KindReference, kinds: readonly string[], options?: ErrorOptions) {
    const { group, version } = reference;
    const name = 'kind' in reference ? `kind ${reference.kind}` : `resource ${reference.plural}`;
    const place = group === '' ? `the core group, ${version}` : `${group}/${version}`;
    const others = kinds.length === 0 ? 'nothing' : kinds.join(', ');
    super(`the API server does not serve the ${name} of ${place}; there is ${others}`, options);
    this.reference = reference;
  }
}

/** One entry of an APIResourceList. */
interface ApiResource {
  /** The plural; for a subresource with its name after a slash. */
  readonly name: string;
  readonly kind: string;
  readonly namespaced: boolean;
  readonly verbs: readonly string[];
}

/** What a group and version hold, by the names that one may ask for. */
interface GroupVersion {
  readonly byKind: ReadonlyMap<string, RestMapping>;
  readonly byPlural: ReadonlyMap<string, RestMapping>;
}

/**
 * Asks the API server which kinds it serves and where: the plural and the scope of a kind of which only group, version
 * and kind are known, as an object's `apiVersion` and `kind` tell them. A group and version is asked for once, and once
 * more for each name that it lacks: a definition may have been installed meanwhile.
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
   * The mapping of one kind.
   *
   * @typeParam T what the kind's objects look like, which no server can tell: the caller's word is taken for it.
   * @throws NotServedError when the server has no such kind; ApiError and NoAnswerError as every request.
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
      // A path that is not there is answered in plain text, without a reason.
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
