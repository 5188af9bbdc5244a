import { isDeepStrictEqual } from 'node:util';
import type { ReadonlyStore } from '../cache/store.ts';
import { ApiError, isAlreadyExists, isConflict, isUidMismatch } from '../client/api-error.ts';
import { isOutcomeUnknown } from '../client/classify-error.ts';
import { type Client, type CreateOptions, mustNotExist } from '../client/client.ts';
import { getIfPresent } from '../client/get-if-present.ts';
import { controllerOf, type Kind, resourceName, versionedResource } from '../kind/kind.ts';
import { type KubeObject, keyOf, keyString, type Manifest } from '../kind/object.ts';
import { type Difference, differencesOf } from './difference.ts';
import { fieldSetHash } from './field-set.ts';
import { getMember, isObject } from './json.ts';
import { schemaOf } from './kind-schema.ts';
import { ToleratedDifferences } from './tolerated-differences.ts';

/**
 * The result of {@link Applier.apply} and {@link Applier.createOnce}.
 *
 * `nameTaken` has a `holder` instead of an `object`, so that the compiler requires a check before the object is used.
 */
export type ApplyResult<T extends KubeObject> =
  /** The object is as desired, or `createOnce` found it. No request was sent, or an apply changed nothing. */
  | { readonly type: 'unchanged'; readonly object: T }
  | { readonly type: 'created'; readonly object: T }
  /** `difference` is the path of the first field that the apply corrected: `.spec.replicas`. */
  | { readonly type: 'applied'; readonly object: T; readonly difference: string }
  /**
   * The owner controls the object, but it is being deleted; no request was sent. Its DELETED event enqueues the owner.
   */
  | { readonly type: 'terminating'; readonly object: T }
  /**
   * An object of this name exists that the owner does not control; nothing was changed. Report it in a condition. If
   * {@link belongsToPredecessor} is true for the holder, the owner was deleted and created again, and the name will
   * soon be free.
   */
  | { readonly type: 'nameTaken'; readonly holder: T };

/** The client and the store for one child. */
export interface ApplyChildOptions<T extends KubeObject> {
  /** The client of the reconcile's context: `store` shows its writes. */
  readonly client: Client;
  /** The store of the kind's informer. */
  readonly store: ReadonlyStore<T>;
}

/**
 * Keeps a controller's children in their desired state, and sends a request only if it would change something.
 *
 * Guarantees:
 * - An object in the desired state costs no request, even after a restart. {@link differencesOf} defines equality. The
 *   exception is an object to which the server adds defaults within an atomic field, or whose kind has no known schema.
 *   For it the applier sends an apply that changes nothing: one for each content after a restart, and at most one per
 *   hour (for up to 16,384 objects). Put these defaults into the manifest to avoid this.
 * - Drift is corrected, including additions to an atomic field. A field that a webhook rewrites is applied again at
 *   most once per minute. A webhook's addition to an atomic field is corrected at most once per hour.
 * - A field that the manifest no longer has is removed. For this, the annotation `<field manager>/applied` holds a hash
 *   of the applied field names. (managedFields has them too, but caches drop it because it is large.)
 * - Objects of other owners are never changed. An existing object must have the owner as its controller, by uid. A
 *   create fails if the name is taken. An apply is a Conflict if the object was replaced.
 * - Fields of other managers are kept. If the manifest has the same field, the manifest wins.
 *
 * Assumptions: each manifest has a controller reference, and the store covers the namespace of the children.
 *
 * @example
 * const applier = new Applier({ fieldManager: 'echoperator' });
 * // In a reconcile:
 * const applied = await applier.apply(Deployment, deploymentOf(shop), { client, store: deployments });
 * if (applied.type === 'nameTaken') {
 *   return { reason: 'NameTaken', message: `Deployment ${applied.holder.metadata.name} is not ours` };
 * }
 */
export class Applier {
  readonly #annotation: string;
  readonly #tolerated = new ToleratedDifferences();

  /**
   * @param options.fieldManager the client's field manager. It is the prefix of the annotation, so it must be a DNS
   *   subdomain.
   * @throws RangeError if it is not.
   */
  constructor(options: { readonly fieldManager: string }) {
    const { fieldManager } = options;
    if (!/^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(fieldManager)) {
      throw new RangeError(
        'the name of an operator, its field manager, must be a DNS subdomain, because it prefixes an annotation; ' +
          `is "${fieldManager}"`,
      );
    }
    this.#annotation = `${fieldManager}/applied`;
  }

  /**
   * Applies a child (server-side) if it is missing or differs from the manifest. A Secret's `stringData` is sent as
   * `data`, which is how the server stores it.
   *
   * @throws RangeError for a manifest without a controller reference, or the store of another kind; the client's
   *   errors, for example a Conflict if the child was replaced or deleted concurrently. The next reconcile finds that
   *   change in the store.
   */
  async apply<T extends KubeObject>(
    kind: Kind<T>,
    manifest: Manifest<T>,
    { client, store }: ApplyChildOptions<T>,
  ): Promise<ApplyResult<T>> {
    const ownerUid = controllerUidOf(kind, manifest);
    requireStoreOf(kind, store);
    const configuration = this.#configuration(kind, manifest);
    const stored = store.get(keyOf(manifest));
    if (stored !== undefined) return this.#applyTo(stored, kind, configuration, ownerUid, client);
    try {
      const object = await client.apply(kind, configuration, { force: true, resourceVersion: mustNotExist });
      this.#recordDifferences(kind, configuration, object);
      return { type: 'created', object };
    } catch (error) {
      if (!isConflict(error)) throw error;
      // The store was stale: this controller or another client has just created the object.
      const live = store.get(keyOf(manifest)) ?? (await getIfPresent(client, kind, keyOf(manifest)));
      if (live === undefined) throw error;
      return this.#applyTo(live, kind, configuration, ownerUid, client);
    }
  }

  /**
   * Creates a child that never changes afterwards (a Job, a Pod). If a create gets no response, a get by name
   * determines whether the create succeeded. The create may still be in flight then, so a retry must use the same name.
   *
   * @throws RangeError for a manifest without a controller reference, or the store of another kind; the client's
   *   errors, unless the child exists.
   */
  async createOnce<T extends KubeObject>(
    kind: Kind<T>,
    manifest: Manifest<T>,
    { client, store, fieldValidation }: ApplyChildOptions<T> & Pick<CreateOptions, 'fieldValidation'>,
  ): Promise<Exclude<ApplyResult<T>, { readonly type: 'applied' }>> {
    const ownerUid = controllerUidOf(kind, manifest);
    requireStoreOf(kind, store);
    const stored = store.get(keyOf(manifest));
    if (stored !== undefined) return classify(stored, ownerUid, 'unchanged');
    try {
      const object = await client.create(kind, manifest, fieldValidation && { fieldValidation });
      return { type: 'created', object };
    } catch (error) {
      if (!isAlreadyExists(error) && !isOutcomeUnknown(error)) throw error;
      // After an AlreadyExists, the client of a reconcile has read the object, so the store shows it.
      const live = store.get(keyOf(manifest)) ?? (await getIfPresent(client, kind, keyOf(manifest)));
      if (live === undefined) throw error;
      return classify(live, ownerUid, isAlreadyExists(error) ? 'unchanged' : 'created');
    }
  }

  async #applyTo<T extends KubeObject>(
    current: T,
    kind: Kind<T>,
    configuration: Manifest<T>,
    ownerUid: string,
    client: Client,
  ): Promise<ApplyResult<T>> {
    const result = classify(current, ownerUid, 'unchanged');
    if (result.type !== 'unchanged') return result;
    const { uid } = current.metadata;
    const differences = differencesOf(configuration, current, schemaOf(kind));
    if (differences.length === 0 || this.#tolerated.has(uid, configuration, differences)) {
      client.trace?.unchanged(kind, current.metadata);
      return result;
    }
    client.trace?.differs(differences);
    try {
      const object = await client.apply(kind, configuration, { force: true, uid });
      const remaining = this.#recordDifferences(kind, configuration, object);
      const remainingAt = new Map(remaining.map((each) => [each.path, each]));
      const corrected = differences.filter((each) => !isDeepStrictEqual(remainingAt.get(each.path), each));
      const [difference] = [...corrected.filter(({ isSurplus }) => !isSurplus), ...corrected];
      return difference === undefined
        ? { type: 'unchanged', object }
        : { type: 'applied', object, difference: difference.path };
    } catch (error) {
      if (!isUidMismatch(error)) throw error;
      // The server responds with Invalid, because a uid is immutable. Callers expect a Conflict.
      const message = `${keyString(keyOf(configuration))} no longer has the uid ${uid}`;
      throw new ApiError(error.request, 409, { ...error.status, code: 409, reason: 'Conflict', message });
    }
  }

  #recordDifferences<T extends KubeObject>(
    kind: Kind<T>,
    configuration: Manifest<T>,
    applied: T,
  ): readonly Difference[] {
    const differences = differencesOf(configuration, applied, schemaOf(kind));
    this.#tolerated.record(applied.metadata.uid, configuration, differences);
    return differences;
  }

  /** Returns the object to compare and send: the manifest without nulls and with the annotation. */
  #configuration<T extends KubeObject>(kind: Kind<T>, given: Manifest<T>): Manifest<T> {
    const manifest = withoutNulls(given);
    const asStored = withoutStringData(kind, manifest);
    const annotations = {
      ...manifest.metadata.annotations,
      [this.#annotation]: fieldSetHash(asStored, schemaOf(kind)),
    };
    return { ...asStored, metadata: { ...manifest.metadata, annotations } };
  }
}

function controllerUidOf(kind: Kind, manifest: Manifest<KubeObject>): string {
  const controller = controllerOf(manifest);
  if (controller !== undefined) return controller.uid;
  throw new RangeError(
    `the manifest of ${resourceName(kind)} ${manifest.metadata.name} has no controller reference: ` +
      'add controllerReference(…)',
  );
}

/**
 * Checks the store's kind, because the compiler accepts the store of another built-in kind: all members of their types
 * are optional.
 */
function requireStoreOf(kind: Kind, store: Pick<ReadonlyStore<KubeObject>, 'kind'>): void {
  const other = store.kind;
  if (other?.view?.isMetadataOnly && !kind.view?.isMetadataOnly)
    throw new RangeError(
      `the store has only the metadata of ${resourceName(other)}: pass the store of the whole objects`,
    );
  if (other === undefined || other === kind || versionedResource(other) === versionedResource(kind)) return;
  throw new RangeError(
    `the store has ${versionedResource(other)}, and the manifest is of ${versionedResource(kind)}: ` +
      'pass the store of that kind',
  );
}

/**
 * Returns `nameTaken` if the owner does not control the object, `terminating` if it is being deleted, otherwise `type`.
 */
function classify<T extends KubeObject, Type extends string>(
  object: T,
  ownerUid: string,
  type: Type,
):
  | { readonly type: Type; readonly object: T }
  | Extract<ApplyResult<T>, { readonly type: 'terminating' | 'nameTaken' }> {
  if (controllerOf(object)?.uid !== ownerUid) return { type: 'nameTaken', holder: object };
  if (object.metadata.deletionTimestamp !== undefined) return { type: 'terminating', object };
  return { type, object };
}

/** Removes null members: the comparison ignores them, but sending them would change the stored object. */
function withoutNulls<T>(value: T): T {
  if (Array.isArray(value)) return value.map(withoutNulls) as T;
  if (!isObject(value)) return value;
  const members = Object.entries(value).filter(([, member]) => member !== null);
  return Object.fromEntries(members.map(([name, member]) => [name, withoutNulls(member)])) as T;
}

/** Converts a Secret's `stringData` to `data`, as the API server does. The server never returns `stringData`. */
function withoutStringData<T extends KubeObject>(kind: Kind<T>, manifest: Manifest<T>): Manifest<T> {
  const texts = getMember(manifest, 'stringData');
  if (kind.group !== '' || kind.kind !== 'Secret' || !isObject(texts)) return manifest;
  const data: Record<string, unknown> = { ...(getMember(manifest, 'data') as object | undefined) };
  for (const [key, text] of Object.entries(texts)) data[key] = Buffer.from(String(text), 'utf8').toString('base64');
  return { ...manifest, stringData: undefined, data };
}
