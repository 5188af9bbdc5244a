import { isDeepStrictEqual } from 'node:util';
import type { ReadonlyStore } from '../cache/index.ts';
import {
  ApiError,
  type Client,
  type CreateOptions,
  isAlreadyExists,
  isConflict,
  isNotFound,
  isUidMismatch,
  NoResponseError,
} from '../client/index.ts';
import {
  controllerOf,
  type Kind,
  type KubeObject,
  keyOf,
  keyString,
  type Manifest,
  resourceName,
} from '../kind/index.ts';
import { Answers } from './answers.ts';
import { type Difference, differencesOf } from './difference.ts';
import { fieldSetHash } from './field-set.ts';
import { isObject, member } from './json.ts';
import { schemaOf } from './kind-schema.ts';

/** What came of making an object be as it is wanted. */
export type Applied<T extends KubeObject> =
  /** It is as an apply leaves it, or is there and made once: nothing was sent, or an apply changed nothing. */
  | { readonly type: 'unchanged'; readonly object: T }
  | { readonly type: 'created'; readonly object: T }
  /** `difference` is the first field that was otherwise: `.spec.replicas`. */
  | { readonly type: 'applied'; readonly object: T; readonly difference: string }
  /** It is ours and being deleted: nothing was sent. Once it is gone it can be made anew. */
  | { readonly type: 'terminating'; readonly object: T }
  /** Its name is held by an object that is not our owner's: nothing was changed. A condition should say so. */
  | { readonly type: 'nameTaken'; readonly holder: T };

/** Where to read and how to write one child. */
export interface ApplyChildOptions<T extends KubeObject> {
  /** The reconcile's own: it ends with the reconcile, and what is written is waited for. */
  readonly client: Client;
  /** What is known of the kind; its informer's. */
  readonly store: ReadonlyStore<T>;
}

/**
 * No object was ever stored under this version: the first write to an empty etcd is its second revision. So an apply
 * that asks for it is a Conflict where the name is taken, and creates the object where it is not (apply creates through
 * the registry's Update, which asks no version of what there is not: k8s.io/apiserver/pkg/registry/generic/registry).
 */
const mustNotExist = '1';

/**
 * Makes a controller's children be as they are wanted, and asks the API server only where something is to be changed.
 *
 * Guarantees:
 * - An object that already says all that is wanted costs no request, also after a restart. See {@link differencesOf}
 *   for what is the same. Where the server adds defaults within an atomic field, an apply that changes nothing finds that
 *   out: one for each content after a restart, and one an hour at the most, unless the manifest has the defaults too.
 * - Drift is put back, also where others have added to an atomic field. What a webhook makes of an apply is let be, and
 *   tried again once a minute at the most; what it only adds to an atomic field once an hour, as a default.
 * - A field that is no longer wanted is removed: an annotation `<field manager>/applied` tells which fields the last
 *   apply had (a hash of them; managedFields would tell too, but caches leave them out, for they are large).
 * - Nobody else's object is ever changed: what exists must have our owner as its controller, by uid; what does not is
 *   made in a way that fails where somebody was faster; what was replaced meanwhile is a Conflict.
 * - Fields that others set stay, unless they are wanted too: then ours win, as is right for an object's controller.
 *
 * Assumptions: the children carry a controller reference; the store holds the kind's objects of their namespace.
 *
 * @example
 * const applier = new Applier({ fieldManager: 'echoperator' });
 * // In a reconcile:
 * const applied = await applier.apply(Deployment, deploymentOf(shop), { client, store: deployments.store });
 * if (applied.type === 'nameTaken') return report('NameTaken', `a Deployment ${applied.holder.metadata.name} is not ours`);
 */
export class Applier {
  readonly #annotation: string;
  readonly #answers = new Answers();

  /**
   * @param options.fieldManager the client's own. It begins the annotation's name, so it must be a DNS subdomain.
   * @throws RangeError if it is none.
   */
  constructor(options: { readonly fieldManager: string }) {
    const { fieldManager } = options;
    if (!/^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(fieldManager)) {
      throw new RangeError(`the field manager must be a DNS subdomain to begin an annotation, not "${fieldManager}"`);
    }
    this.#annotation = `${fieldManager}/applied`;
  }

  /**
   * Applies a child, server-side, if it is not there or not as wanted. A Secret's `stringData` is sent as `data`, since
   * that is how it is stored.
   *
   * @throws RangeError for a manifest without a controller reference; whatever the client throws: a Conflict where the
   *   child was replaced or deleted meanwhile, which the next reconcile finds in the store.
   */
  async apply<T extends KubeObject>(
    kind: Kind<T>,
    manifest: Manifest<T>,
    { client, store }: ApplyChildOptions<T>,
  ): Promise<Applied<T>> {
    const owner = ownerOf(kind, manifest);
    const configuration = this.#configuration(kind, manifest);
    const stored = store.get(keyOf(manifest));
    if (stored !== undefined) return this.#applyTo(stored, kind, configuration, owner, client);
    try {
      const object = await client.apply(kind, configuration, { force: true, resourceVersion: mustNotExist });
      this.#remember(kind, configuration, object);
      return { type: 'created', object };
    } catch (error) {
      if (!isConflict(error)) throw error;
      // The store was behind: made by us a moment ago, or by somebody else.
      const live = await liveOf(kind, manifest, client);
      if (live === undefined) throw error;
      return this.#applyTo(live, kind, configuration, owner, client);
    }
  }

  /**
   * Creates a child that is never changed afterwards (a Job, a Pod). Its name is the caller's, chosen before the first
   * attempt: so where the answer is lost, a look at that name tells whether it was made. That it was not may be wrong for
   * a moment, while the request is under way still: who tries again should do so under the same name.
   *
   * @throws RangeError for a manifest without a controller reference; whatever the client throws, except where the
   *   child turns out to be there.
   */
  async createOnce<T extends KubeObject>(
    kind: Kind<T>,
    manifest: Manifest<T>,
    { client, store, fieldValidation }: ApplyChildOptions<T> & Pick<CreateOptions, 'fieldValidation'>,
  ): Promise<Exclude<Applied<T>, { readonly type: 'applied' }>> {
    const owner = ownerOf(kind, manifest);
    const stored = store.get(keyOf(manifest));
    if (stored !== undefined) return found(stored, owner, 'unchanged');
    try {
      const object = await client.create(kind, manifest, fieldValidation && { fieldValidation });
      return { type: 'created', object };
    } catch (error) {
      if (!isAlreadyExists(error) && !isOutcomeUnknown(error)) throw error;
      const live = await liveOf(kind, manifest, client);
      if (live === undefined) throw error;
      return found(live, owner, isAlreadyExists(error) ? 'unchanged' : 'created');
    }
  }

  async #applyTo<T extends KubeObject>(
    present: T,
    kind: Kind<T>,
    configuration: Manifest<T>,
    owner: string,
    client: Client,
  ): Promise<Applied<T>> {
    const state = found(present, owner, 'unchanged');
    if (state.type !== 'unchanged') return state;
    const { uid } = present.metadata;
    const differences = differencesOf(configuration, present, schemaOf(kind));
    const [difference] = [...differences.filter(({ isSurplus }) => !isSurplus), ...differences];
    if (difference === undefined || this.#answers.isExpected(uid, configuration, differences)) return state;
    try {
      const object = await client.apply(kind, configuration, { force: true, uid });
      const left = this.#remember(kind, configuration, object);
      if (isDeepStrictEqual(left, differences)) return { type: 'unchanged', object };
      return { type: 'applied', object, difference: difference.path };
    } catch (error) {
      if (!isUidMismatch(error)) throw error;
      // The server says Invalid: a uid cannot be changed. To the caller it is a conflict as any other.
      const message = `${keyString(keyOf(configuration))} is no longer the object with the uid ${uid}`;
      throw new ApiError(error.request, 409, { ...error.status, code: 409, reason: 'Conflict', message });
    }
  }

  #remember<T extends KubeObject>(kind: Kind<T>, configuration: Manifest<T>, answer: T): readonly Difference[] {
    const differences = differencesOf(configuration, answer, schemaOf(kind));
    this.#answers.remember(answer.metadata.uid, configuration, differences);
    return differences;
  }

  /** What is sent and compared: the manifest without nulls, and with the annotation that tells of its fields. */
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

function ownerOf(kind: Kind, manifest: Manifest<KubeObject>): string {
  const controller = controllerOf(manifest);
  if (controller !== undefined) return controller.uid;
  throw new RangeError(
    `${resourceName(kind)} ${manifest.metadata.name} has no controller reference: see controllerReference`,
  );
}

/** What an object under a child's name is to its owner. */
function found<T extends KubeObject, Type extends string>(
  object: T,
  owner: string,
  type: Type,
): { readonly type: Type; readonly object: T } | Extract<Applied<T>, { readonly type: 'terminating' | 'nameTaken' }> {
  if (controllerOf(object)?.uid !== owner) return { type: 'nameTaken', holder: object };
  if (object.metadata.deletionTimestamp !== undefined) return { type: 'terminating', object };
  return { type, object };
}

/** Past the cache; undefined where there is none. */
async function liveOf<T extends KubeObject>(
  kind: Kind<T>,
  manifest: Manifest<T>,
  client: Client,
): Promise<T | undefined> {
  try {
    return await client.get(kind, keyOf(manifest));
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** It was sent and had no answer, or one that says that it may have happened all the same (a time-out in the server). */
function isOutcomeUnknown(error: unknown): boolean {
  return error instanceof NoResponseError ? error.wasSent : error instanceof ApiError && error.code >= 500;
}

/** Without members that are null, which nothing compares: sent, they would alter what is stored. */
function withoutNulls<T>(value: T): T {
  if (Array.isArray(value)) return value.map(withoutNulls) as T;
  if (!isObject(value)) return value;
  const members = Object.entries(value).filter(([, member]) => member !== null);
  return Object.fromEntries(members.map(([name, member]) => [name, withoutNulls(member)])) as T;
}

/** The API server turns a Secret's `stringData` into `data` and never shows it again. */
function withoutStringData<T extends KubeObject>(kind: Kind<T>, manifest: Manifest<T>): Manifest<T> {
  const texts = member(manifest, 'stringData');
  if (kind.group !== '' || kind.kind !== 'Secret' || !isObject(texts)) return manifest;
  const data: Record<string, unknown> = { ...(member(manifest, 'data') as object | undefined) };
  for (const [key, text] of Object.entries(texts)) data[key] = Buffer.from(String(text), 'utf8').toString('base64');
  return { ...manifest, stringData: undefined, data };
}
