import { isCustomKind } from '../kind/define-kind.ts';
import { resourceName } from '../kind/kind.ts';
import { keyString, type ObjectKey } from '../kind/object.ts';
import type { ControllerKeyState, ObservedController } from '../observer/operator-observer.ts';
import type { Cause, DeltaCause } from '../queue/cause.ts';
import type { ReconcileRecord, RecordedReconcile, StepRecord } from './reconcile-record.ts';
import type { RecordedKey } from './recorded-key.ts';

/** Asks about one object. */
export interface ExplainQuery {
  /** In any form that kubectl accepts: `Echo`, `echos`, `echos.mmontes.io`, `ec`. */
  readonly kind: string;
  /** Ignored for a cluster-scoped kind. */
  readonly namespace: string;
  readonly name: string;
}

/** Asks about the reconciles that sent something or failed, and about everything that has not ended. */
export interface ActivityQuery {
  /** Default: all namespaces, and cluster-scoped objects. */
  readonly namespace?: string;
  readonly withinSeconds: number;
}

/** A request of a reconcile, or an object that a reconcile found as desired. */
export interface ExplainedStep {
  /** A verb of the client. `unchanged`: nothing differed, so no apply was sent. */
  readonly verb: string;
  readonly kind: string;
  readonly name?: string;
  readonly subresource?: string;
  /** The fields that a patch sets, or that an apply corrects. */
  readonly paths?: readonly string[];
  /**
   * `ok`, an HTTP status, `no response`, or `none before the reconcile ended`. Absent for `unchanged`, and while both
   * the request and the reconcile run.
   */
  readonly response?: string;
  readonly ms?: number;
}

/** A reconcile, or the last of several similar reconciles. */
export interface ExplainedReconcile {
  readonly at: string;
  /** Why the reconcile ran. */
  readonly why: string;
  /** How many similar reconciles ran before, and when the first one did. */
  readonly repeated?: { readonly times: number; readonly firstAt: string };
  /** How long the key was in the queue. */
  readonly queuedMs: number;
  readonly steps: readonly ExplainedStep[];
  /** How many steps are not listed. */
  readonly furtherSteps?: number;
  /** Absent while the reconcile runs. */
  readonly ms?: number;
  /** The reason of `Ready` that the reconcile reported. */
  readonly reason?: string;
  readonly outcome?: 'success' | 'error' | 'requeue_after';
  readonly failure?: 'terminal' | 'panic' | 'timeout';
  /** Classes, codes and names, without the message, which may quote values. The log has the message. */
  readonly error?: string;
  /** When the key is requeued. */
  readonly nextAt?: string;
}

/** Explains the state of an object, from the recorded reconciles. */
export interface Explanation {
  readonly kind: string;
  readonly key: string;
  readonly at: string;
  /** What the key waits for now. */
  readonly now: string;
  /** How many reconciles ended since the first recorded one. */
  readonly total: number;
  /** Oldest first; the last one may be running. */
  readonly reconciles: readonly ExplainedReconcile[];
  /** The last change of the object that the controller's predicate rejected. */
  readonly ignored?: { readonly at: string; readonly change: string };
}

/** What an operator did, and what has not ended. */
export interface Activity {
  /** Absent: all namespaces. */
  readonly namespace?: string;
  readonly withinSeconds: number;
  readonly at: string;
  /** Oldest first. Includes every running reconcile, whenever it started, even if it sent nothing. */
  readonly reconciles: readonly (ExplainedReconcile & { readonly kind: string; readonly key: string })[];
  /** Objects that are being reconciled, and their state. The longest-waiting objects come first. */
  readonly unfinished: readonly { readonly kind: string; readonly key: string; readonly now: string }[];
  /** How many such objects are not listed. */
  readonly furtherUnfinished?: number;
}

/** An operator's response to a query. */
export interface ExplainResponse {
  /** Absent if there is a `problem`. */
  readonly explanation?: Explanation | undefined;
  /** Present if the query asked for it. */
  readonly activity?: Activity;
  /** Why there is no explanation. */
  readonly problem?: string;
  /** What limits the explanation: the replica does not lead, the controller is disabled. */
  readonly notes: readonly string[];
  /** Absent without leader election, and until a leader is observed. */
  readonly leader?: {
    readonly identity: string;
    readonly isThisReplica: boolean;
    /** When this replica began to lead, or observed the leader. */
    readonly since: string;
    /** Why this replica could begin to lead. */
    readonly because?: string;
  };
}

/** A controller, and the records of its keys. */
export interface RecordedController {
  readonly controller: ObservedController;
  readonly keys: ReadonlyMap<string, RecordedKey>;
}

/** Explains an object. Undefined if no controller reconciles its kind. */
export function explainObject(controllers: Iterable<RecordedController>, query: ExplainQuery): Explanation | undefined {
  for (const { controller, keys } of controllers) {
    if (!isNamed(controller, query.kind.toLowerCase())) continue;
    const { kind } = controller;
    const key = kind.scope === 'Cluster' ? { name: query.name } : { namespace: query.namespace, name: query.name };
    const recorded = keys.get(keyString(key));
    const running = recorded?.running;
    const reconciles = [...(recorded?.records ?? []), ...(running === undefined ? [] : [running])];
    return {
      kind: kind.kind,
      key: keyString(key),
      at: timeOf(performance.now()),
      now: `${describeState(controller, key, running)}${lastReasonOf(recorded)}`,
      total: recorded?.total ?? 0,
      reconciles: reconciles.map(explainReconcile),
      ...(recorded?.filtered !== undefined && {
        ignored: {
          at: timeOf(recorded.filteredAtMs),
          change: `${describeCause(recorded.filtered, 0)}; ${predicateOf(controller)} drops such changes`,
        },
      }),
    };
  }
  return undefined;
}

const lastReasonOf = (recorded: RecordedKey | undefined): string =>
  recorded?.lastReason === undefined || recorded.running !== undefined ? '' : `; last reason ${recorded.lastReason}`;

/** Limits the size of the response. */
const maxUnfinished = 100;

/** Explains what the operator did, from the recorded reconciles, and what has not ended. Searches all records. */
export function explainActivity(
  controllers: Iterable<RecordedController>,
  { namespace, withinSeconds }: ActivityQuery,
): Activity {
  const nowMs = performance.now();
  const fromMs = nowMs - withinSeconds * 1000;
  const recordedControllers = [...controllers];
  const reconciles = recordedControllers.flatMap(({ controller: { kind }, keys }) =>
    [...keys.values()].flatMap((recorded) => {
      const { key, running } = recorded;
      if (namespace !== undefined && !key.startsWith(`${namespace}/`)) return [];
      return [
        ...recorded.records.filter((record) => record.startedAtMs >= fromMs && !isQuiet(record)),
        ...(running === undefined ? [] : [running]),
      ].map((record) => ({ kind: kind.kind, key, ...explainReconcile(record) }));
    }),
  );
  const unfinished = recordedControllers.flatMap(({ controller, keys }) =>
    controller
      .unfinished()
      .filter(({ key }) => namespace === undefined || key.namespace === namespace)
      .map((each) => ({ ...each, controller, keys })),
  );
  const listed = unfinished.sort((a, b) => a.sinceMs - b.sinceMs).slice(0, maxUnfinished);
  const further = unfinished.length - listed.length;
  return {
    ...(namespace !== undefined && { namespace }),
    withinSeconds,
    at: timeOf(nowMs),
    reconciles: reconciles.sort((a, b) => (a.at < b.at ? -1 : 1)),
    unfinished: listed.map(({ controller, keys, key }) => ({
      kind: controller.kind.kind,
      key: keyString(key),
      now: describeState(controller, key, keys.get(keyString(key))?.running),
    })),
    ...(further > 0 && { furtherUnfinished: further }),
  };
}

/** Whether the reconcile sent nothing and did not fail. */
const isQuiet = ({ requests, error }: ReconcileRecord): boolean => requests === 0 && error === undefined;

/** An inline function has no name, or only the name of the option. */
const predicateOf = ({ predicate = '' }: ObservedController): string =>
  ['', 'predicate'].includes(predicate) ? 'the predicate of the controller' : `the predicate ${predicate}`;

function isNamed({ kind }: ObservedController, name: string): boolean {
  const shortNames = isCustomKind(kind) ? (kind.definition.shortNames ?? []) : [];
  return [kind.kind.toLowerCase(), kind.plural, resourceName(kind), ...shortNames].includes(name);
}

function describeState(controller: ObservedController, key: ObjectKey, running: RecordedReconcile | undefined): string {
  const state = controller.stateOf(key);
  const nowMs = performance.now();
  const since = (sinceMs: number) => duration(nowMs - sinceMs);
  if (!state.isInScope) return 'outside the watched namespaces: the operator does not see it';
  if (state.isProcessing) {
    if (running === undefined) return 'its reconcile has ended, or its record was dropped: a request has no response';
    const { steps, lastFurtherStep, startedAtMs } = running;
    const requests = [...steps, ...(lastFurtherStep === undefined ? [] : [lastFurtherStep])]
      .filter(({ verb, ms }) => verb !== 'unchanged' && ms === undefined)
      .map((step) => `${nameOf(step)} without a response for ${since(step.sentAtMs)}`);
    const where = requests.length === 0 ? 'no request to the API server is in flight' : requests.join(', ');
    return `a reconcile runs for ${since(startedAtMs)}: ${where}`;
  }
  if (state.waitingSinceMs !== undefined) {
    return `queued for ${since(state.waitingSinceMs)}: ${describeCause(state.cause, state.failures)}`;
  }
  const absent = absenceOf(state, controller);
  if (state.dueAtMs === undefined) return `${absent}waits for a change`;
  const dueIn = duration(Math.max(state.dueAtMs - nowMs, 0));
  return `${absent}waits for ${describeTimer(state)}, in ${dueIn}`;
}

function describeTimer({ dueCause, failures }: ControllerKeyState): string {
  if (dueCause?.type === 'overwrite') return 'the correction of what another client overwrites again and again';
  if (dueCause?.type !== 'retry') return 'its requeue';
  return failures > 0 ? `retry ${failures}` : 'the retry of an earlier failure';
}

function absenceOf({ isCached, isFiltered }: ControllerKeyState, controller: ObservedController): string {
  if (!isCached) return 'not in the cache: it does not exist, or the cache has not shown it yet; ';
  return isFiltered ? `${predicateOf(controller)} drops it; ` : '';
}

function explainReconcile(record: ReconcileRecord): ExplainedReconcile {
  const { steps, furtherSteps, ms, nextAtMs, reason, outcome, failure, error, count } = record;
  return {
    at: timeOf(record.startedAtMs),
    why: describeCauses(record),
    ...(count > 1 && { repeated: { times: count - 1, firstAt: timeOf(record.firstStartedAtMs) } }),
    queuedMs: round(record.waitedMs),
    steps: steps.map((step) => explainStep(step, ms !== undefined)),
    ...(furtherSteps > 0 && { furtherSteps }),
    ...(ms !== undefined && { ms: round(ms) }),
    ...(reason !== undefined && { reason }),
    ...(outcome !== undefined && { outcome }),
    ...(failure !== undefined && { failure }),
    ...(error !== undefined && { error }),
    ...(nextAtMs !== undefined && { nextAt: timeOf(nextAtMs) }),
  };
}

function explainStep(
  { verb, kind, name, subresource, paths = '', ms, code }: StepRecord,
  hasEnded: boolean,
): ExplainedStep {
  return {
    verb,
    kind,
    ...(name !== undefined && { name }),
    ...(subresource !== undefined && { subresource }),
    ...(paths !== '' && { paths: paths.split(', ') }),
    ...(ms !== undefined && {
      response: code === 0 ? 'no response' : code === 200 ? 'ok' : String(code),
      ms: round(ms),
    }),
    ...(ms === undefined && hasEnded && verb !== 'unchanged' && { response: 'none before the reconcile ended' }),
  };
}

function describeCauses({ cause, furtherCauses, furtherAdds, retries }: ReconcileRecord): string {
  const causes = [cause, ...furtherCauses].map((each) => describeCause(each, retries));
  const others = furtherAdds - furtherCauses.length;
  return `${causes.join('; ')}${others > 0 ? `; and ${others} more` : ''}`;
}

function describeDelta({ kind, change, paths, by, origin }: DeltaCause): string {
  const fields = change === 'modified' ? ` (${paths.join(', ') || 'in no field that the cache keeps'})` : '';
  return `${kind} ${change}${fields}${by === undefined ? '' : ` by ${by}`}${foundBy[origin]}`;
}

const foundBy = { list: ', found by a list', watch: '', response: ', shown by a response' } as const;

/** Describes why a key was enqueued. */
function describeCause(cause: Cause | undefined, retries: number): string {
  switch (cause?.type) {
    case 'delta':
      return describeDelta(cause);
    case 'retry':
      // A reconcile with another cause may have succeeded in the meantime.
      return retries === 0 ? 'a retry' : `retry ${retries}`;
    case 'requeue':
      return 'the requeue that it had asked for';
    case 'resync':
      return 'resync';
    case 'source':
      return 'a source of keys';
    case 'missed':
      return 'a change of another client that may have been missed';
    case 'takeover':
      return 'this replica began to lead';
    case 'overwrite':
      return 'another client overwrites what it writes';
    default:
      return 'unknown';
  }
}

/** Describes a request: `patch Echo hello status`. */
export const nameOf = ({
  verb,
  kind,
  name,
  subresource,
}: Omit<ExplainedStep, 'response' | 'ms'> | StepRecord): string =>
  [verb, kind, name, subresource].filter((part) => part !== undefined).join(' ');

/** `12 ms`, `3.4 s`, `5 min`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 120_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 60_000)} min`;
}

const timeOf = (atMs: number): string => new Date(performance.timeOrigin + atMs).toISOString();

const round = (ms: number): number => Math.round(ms * 10) / 10;
