import {
  type Client,
  type Condition,
  type DesiredStatus,
  type EventRecorder,
  findCondition,
  isNotFound,
  type Kind,
  type KubeObject,
  type ReconcileContext,
  reportStatus,
} from '../runtime/index.ts';

/** An object whose state the condition `Ready` sums up. */
type WithConditions = KubeObject & {
  readonly status?: { readonly conditions?: readonly Condition[] };
};

/** What a reconcile has found, in a word and a sentence. */
export interface ReadyReport<T extends WithConditions> {
  readonly reason: string;
  readonly message: string;
  /** Whether a person should look at it. */
  readonly isWarning: boolean;
  /** The whole status, the condition `Ready` of that reason among it. */
  readonly status: DesiredStatus<NonNullable<T['status']>>;
}

/**
 * Writes what a reconcile has found into the object's status, if that says something else. Where the reason of Ready is
 * another than before, an Event and a line of the log tell it too.
 *
 * @throws whatever the client throws; an Error where the object is there and has no status to write: its CRD is an old one.
 */
export async function reportReady<T extends WithConditions>(
  events: EventRecorder,
  kind: Kind<T>,
  object: T,
  { reason, message, isWarning, status }: ReadyReport<T>,
  { client, log }: Pick<ReconcileContext, 'client' | 'log'>,
): Promise<void> {
  if ((await writeStatus(client, kind, object, status)) === undefined) return;
  if (findCondition(object.status?.conditions, 'Ready')?.reason === reason) return;
  log.info({ reason }, message);
  events.record(kind, object, { type: isWarning ? 'Warning' : 'Normal', reason, action: 'Reconcile', note: message });
}

/**
 * Writes into an object's status what it does not say yet, and returns the object as it is then; undefined if it says so
 * already, or is gone.
 *
 * @throws whatever the client throws; an Error where the object is there and has no status to write: its CRD is an old one.
 */
export async function writeStatus<T extends WithConditions>(
  client: Client,
  kind: Kind<T>,
  object: T,
  status: DesiredStatus<NonNullable<T['status']>>,
): Promise<T | undefined> {
  try {
    return await reportStatus(client, kind, object, status);
  } catch (error) {
    if (!isNotFound(error)) throw error;
    // Deleted meanwhile: there is nobody left to report to.
    if (!(await isCurrent(client, kind, object))) return undefined;
    throw new Error(`the ${kind.kind} is there, but takes no status: apply this version's CustomResourceDefinition`, {
      cause: error,
    });
  }
}

/**
 * Asks the API server whether an object still is as the store has it, of the same generation and not being deleted. A
 * watch that lags, or whose connection died without a word, leaves one there that was deleted or has another spec by now.
 */
export async function isCurrent(client: Client, kind: Kind, { metadata }: KubeObject): Promise<boolean> {
  try {
    const { uid, generation, deletionTimestamp } = (await client.get(kind, metadata)).metadata;
    return uid === metadata.uid && generation === metadata.generation && deletionTimestamp === undefined;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}
