import { type DesiredStatus, isCurrent, writeStatus } from '../runtime/controller/index.ts';
import {
  type Condition,
  type EventRecorder,
  findCondition,
  type Kind,
  type KubeObject,
  type ReconcileContext,
} from '../runtime/index.ts';

// For the kinds that do not use OutcomeReporter yet.
export { isCurrent, writeStatus };

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
