import { inspect } from 'node:util';
import type { AnyInformer, Informer, InformerOptions, Writer } from '../cache/informer.ts';
import type { Delta } from '../cache/store.ts';
import { isAlreadyExists, isConflict, isNamespaceTerminating } from '../client/api-error.ts';
import type { Client } from '../client/client.ts';
import { GateClosedError } from '../client/gate.ts';
import { type Kind, requireKeyInScope } from '../kind/kind.ts';
import { type KubeObject, keyString, type ObjectKey, parseKey } from '../kind/object.ts';
import type { Metrics } from '../observability/metrics.ts';
import type {
  ControllerKeyState,
  ControllerObserver,
  FailureKind,
  OperatorObserver,
  ReconcileObserver,
  ResultLabel,
  UnfinishedKey,
} from '../observer/operator-observer.ts';
import type { Cause } from '../queue/cause.ts';
import type { QueueItem } from '../queue/fair-queue.ts';
import { type RetryOptions, WorkQueue } from '../queue/work-queue.ts';
import { differOnlyInStatus } from '../shared/field-paths.ts';
import { isDefect } from '../shared/is-defect.ts';
import type { Logger } from '../shared/logger.ts';
import { nextTurn, pause } from '../shared/pause.ts';
import { maxTimerMs, requireTimerMs } from '../shared/timer-ms.ts';
import { DeltaCauses } from './delta-causes.ts';
import { LazyLog } from './lazy-log.ts';
import { Overwrites } from './overwrites.ts';
import { type Predicate, passes } from './predicate.ts';
import { ReconcileRequests } from './reconcile-requests.ts';
import { isTerminal, type Result } from './result.ts';
import type { Modified } from './sent-fields.ts';
import { type KeySource, runSource } from './source.ts';
import { type ReconcileTimer, TimeLimit } from './time-limit.ts';
import { type Enqueue, type EnqueueOptions, enqueueOptionsOf, type InformerSource, type Watch } from './watch.ts';

/** The context of one reconcile. */
export interface ReconcileContext {
  /**
   * Aborts its requests with `signal`. The informers' stores show the object of each response to a write or `get`
   * before the reconcile continues; see {@link ReconcileRequests}. It refuses `deleteCollection`, whose response does
   * not name the deleted objects.
   */
  readonly client: Client;
  /**
   * Aborted after `reconcileTimeoutMs` (with a TimeoutError) or after the drain timeout. Return immediately once it is
   * aborted. When the Lease is lost, the requests of `client` fail immediately, but this signal is not aborted. So
   * guard calls to other systems also with the signal of the elector's fence.
   */
  readonly signal: AbortSignal;
  /** Names the controller, the object and this reconcile (`reconcileID`) in each line. */
  readonly log: Logger;
  /**
   * How often reconciles of this key have failed in a row before this one. Absent after a success or a
   * {@link TerminalError}.
   */
  readonly priorFailures?: FailedReconciles | undefined;
}

/** The reconciles of a key that have failed in a row. */
export interface FailedReconciles {
  readonly count: number;
  /** When the first one ended. */
  readonly since: Date;
  /**
   * The error of the last failure, if that reconcile exceeded its time limit. It could not report the error itself,
   * because its client was aborted: the next reconcile reports it.
   */
  readonly timeout?: unknown;
}

/**
 * Makes the world match one object: reads the stores, compares, acts, and writes the status. Called with a key when
 * something that the key may depend on has changed, and after a failure. Never called concurrently for one key. Must be
 * idempotent and level-based: it must rely on the stores, not on having seen an event.
 *
 * A thrown error is logged, counted and retried with backoff, with two exceptions. A {@link TerminalError} is not
 * retried. A {@link GateClosedError}, and an error because the key's own namespace is being deleted, end the reconcile
 * without a retry.
 */
export type Reconcile = (key: ObjectKey, context: ReconcileContext) => Promise<Result>;

/** When failures in a row are reported. An API server that restarts causes several failures within milliseconds. */
const reportedAfter = { failures: 3, ms: 5000 } as const;

/** Whether failures in a row should be reported: they have lasted for a while, and are not just many at once. */
export const isPersistent = (failed: Pick<FailedReconciles, 'count' | 'since'> | undefined, now: Date): boolean =>
  failed !== undefined &&
  failed.count >= reportedAfter.failures &&
  now.getTime() - failed.since.getTime() >= reportedAfter.ms;

/** Options of a {@link Controller}. */
export interface ControllerOptions<T extends KubeObject> {
  /** The name in logs and metrics. Default: the kind's name in lower case. */
  readonly name?: string;
  readonly reconcile: Reconcile;
  /** Kinds of children ({@link owns}) and other kinds ({@link watches}). */
  readonly watches?: readonly Watch[];
  /**
   * Called when the controller starts to work, before its sources and workers. The result is disposed after the last
   * reconcile. If it throws, the manager's `run` throws.
   *
   * @param signal aborts running reconciles.
   */
  readonly setUp?: (signal: AbortSignal) => Promise<AsyncDisposable>;
  /** Sources of keys other than watches; see {@link KeySource}. A function is called after `setUp`. */
  readonly sources?: readonly KeySource[] | (() => readonly KeySource[]);
  /**
   * Which changes of the controller's own kind enqueue the key. Default: all. A change that contains only what the
   * key's own reconcile has sent never enqueues it, so no predicate is needed to avoid a loop. A change that the
   * predicate rejects is not corrected.
   */
  readonly predicate?: Predicate<T>;
  /** Options of the informer of its own kind; see `Manager.informer`. */
  readonly informer?: InformerOptions<T>;
  /** How many reconciles run concurrently. Default 4. */
  readonly workers?: number;
  /**
   * How long a reconcile may take, in milliseconds. After that its signal is aborted and the reconcile counts as
   * failed, whatever it returns, and its worker continues with other keys. The key is retried only after the reconcile
   * has ended. Default: no limit.
   */
  readonly reconcileTimeoutMs?: number;
  /**
   * How often every object is enqueued even if nothing changes, in milliseconds, with ±10 % jitter and low priority. To
   * poll something outside the cluster, prefer `requeueAfter`. Default: never.
   */
  readonly resyncEveryMs?: number;
  /** When a failed reconcile is retried. */
  readonly retries?: RetryOptions;
}

/** A controller that was added to a manager. */
export interface ControllerHandle {
  readonly name: string;
  /**
   * Removes the controller: waits for its running reconciles, at most for the drain timeout, then stops the informers
   * that no other controller holds. Resolves when this is done. Idempotent.
   */
  remove(): Promise<void>;
}

/** What a controller gets from its manager. */
export interface ControllerEnvironment {
  readonly client: Client;
  readonly informers: InformerSource;
  /** Returns the informer of this version of a kind, if there is one, whoever holds it. */
  readonly informersOf: (kind: Kind) => readonly AnyInformer[];
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'reconciles' | 'queue'>;
  /** Default: none. */
  readonly observer?: OperatorObserver | undefined;
}

const resync: Cause = { type: 'resync' };
const source: Cause = { type: 'source' };
const missed: Cause = { type: 'missed' };
const overwrite: Cause = { type: 'overwrite' };
const takeover: Cause = { type: 'takeover' };

/** How long after its time limit a reconcile that still runs is logged. */
const loggedOverrunMs = 10_000;

/** How long reconciles without a request may keep timers and I/O waiting. */
const maxTurnMs = 20;

/** A resync yields to the event loop after this many keys. */
const resyncBatch = 1000;

/** Maps changes to keys and reconciles them with its workers. Created by `Manager.controller`. */
export class Controller<T extends KubeObject> {
  readonly name: string;
  readonly #workers: number;
  readonly #reconcile: Reconcile;
  readonly #reconcileTimeoutMs: number | undefined;
  readonly #resyncEveryMs: number | undefined;
  readonly #setUp: ControllerOptions<T>['setUp'];
  readonly #sources: NonNullable<ControllerOptions<T>['sources']>;
  readonly #client: Client;
  readonly #log: Logger;
  readonly #metrics: ReconcileObserver;
  readonly #observer: ControllerObserver | undefined;
  /** Created by {@link run} if reconciles have a time limit. */
  #limit: TimeLimit | undefined;
  /** Reconciles that still run after their time limit, without a worker. */
  readonly #overrunning = new Set<Promise<void>>();
  /** When the workers last let timers and I/O run, by `performance.now`. */
  #yieldedAtMs = 0;
  /** All workers wait together: one after the other, each would block the process for as long again. */
  #yielding: Promise<void> | undefined;
  readonly #queue: WorkQueue;
  readonly #informer: Informer<T>;
  readonly #informersOf: ControllerEnvironment['informersOf'];
  readonly #overwrites = new Overwrites();
  /** The keys whose last reconcile exceeded its time limit, each with the error. */
  readonly #timeouts = new Map<string, unknown>();
  /** Whether the handlers are being attached again, so that the queue receives every cached object. */
  #isTakingOver = false;
  /** Attaches the handlers again after {@link detach}. */
  readonly #reattach: () => void;
  /** One function per attached handler. Empty: the controller is detached. */
  readonly #handlerRemovers: (() => void)[] = [];
  /** Stops sources and resyncs. */
  readonly #stopSources = new AbortController();

  /** @throws RangeError for an invalid number. */
  constructor(kind: Kind<T>, options: ControllerOptions<T>, environment: ControllerEnvironment) {
    const { name = kind.kind.toLowerCase(), workers = 4, reconcileTimeoutMs, resyncEveryMs } = options;
    if (!(Number.isInteger(workers) && workers >= 1))
      throw new RangeError(`workers must be an integer of at least 1, is ${workers}`);
    this.name = name;
    this.#workers = workers;
    this.#reconcile = options.reconcile;
    this.#reconcileTimeoutMs = requireTimerMs('reconcileTimeoutMs', reconcileTimeoutMs);
    this.#resyncEveryMs = requireTimerMs('resyncEveryMs', resyncEveryMs);
    this.#setUp = options.setUp;
    this.#sources = options.sources ?? [];
    this.#client = environment.client;
    this.#informersOf = environment.informersOf;
    this.#log = environment.log.child({ controller: name });
    this.#metrics = environment.metrics.reconciles(name, workers);
    this.#queue = new WorkQueue({ ...options.retries, observer: environment.metrics.queue(name) });
    this.#informer = environment.informers(kind, options.informer);
    const { predicate } = options;
    this.#observer = environment.observer?.controller({
      name,
      kind,
      predicate: predicate?.name,
      stateOf: (key) => this.#stateOf(key, predicate),
      unfinished: () => this.#unfinished(),
    });
    this.#attachAll(kind, options, environment.informers);
    this.#reattach = () => this.#attachAll(kind, options, environment.informers);
  }

  /**
   * Detaches the handlers from the informers, which may continue. A later {@link run} attaches the handlers again,
   * which enqueues every cached object. A standby detaches, because otherwise its queue would collect the key of every
   * object that ever existed.
   */
  detach(): void {
    for (const remove of this.#handlerRemovers.splice(0)) remove();
  }

  get #isDetached(): boolean {
    return this.#handlerRemovers.length === 0;
  }

  /**
   * Runs sources and workers until {@link drain} is called, then waits for running reconciles. The caches must have
   * synced.
   *
   * @param signal aborts running reconciles.
   * @throws an error that a worker throws outside a reconcile: a programming error.
   */
  async run(signal: AbortSignal): Promise<void> {
    await using _ = await this.#setUp?.(signal);
    if (this.#reconcileTimeoutMs !== undefined) this.#limit = new TimeLimit(this.#reconcileTimeoutMs, signal);
    if (this.#isDetached) {
      this.#isTakingOver = true;
      this.#reattach();
      this.#isTakingOver = false;
    }
    const sourcesStopped = this.#runSources();
    try {
      await Promise.all(Array.from({ length: this.#workers }, () => this.#work(signal)));
      await Promise.all(this.#overrunning);
    } finally {
      this.drain();
      await sourcesStopped;
    }
  }

  /** Stops taking work. {@link run} resolves when running reconciles have ended. */
  drain(): void {
    this.#stopSources.abort();
    this.#queue.close();
  }

  /** All or nothing: on error, detaches every handler. */
  #attachAll(kind: Kind<T>, options: ControllerOptions<T>, informers: InformerSource): void {
    try {
      this.#attach(kind, options, informers);
    } catch (error) {
      this.detach();
      throw error;
    }
  }

  #attach(kind: Kind<T>, options: ControllerOptions<T>, informers: InformerSource): void {
    const { predicate } = options;
    const tracksCauses = this.#observer !== undefined;
    const causes = tracksCauses ? new DeltaCauses(kind.kind, this.#informer.trackFieldOwners()) : undefined;
    const removeHandler = this.#informer.addHandler((delta, origin, writer) => {
      const key = keyString(delta.object.metadata);
      // Check this before the predicate, which may compare whole objects.
      if (this.#isWriter(key, writer)) return;
      if (passes(predicate, delta)) {
        this.#add(key, enqueueOptionsOf(delta, origin, writer), causes?.of(delta, origin));
      } else if (causes !== undefined && changesMoreThanStatus(delta)) {
        this.#observer?.filtered(key, causes.of(delta, origin));
      }
    });
    this.#handlerRemovers.push(removeHandler);
    for (const watch of options.watches ?? [])
      this.#handlerRemovers.push(watch.attach(informers, this.#enqueue, tracksCauses));
  }

  #isWriter(key: string, writer: Writer | undefined): boolean {
    return writer?.controller === this && writer.key === key;
  }

  readonly #enqueue: Enqueue = (key, options = {}, cause) => {
    try {
      requireKeyInScope(this.#informer.kind, key);
    } catch (error) {
      // Do not throw: a source may call this in a listener, whose error would end the process.
      this.#log.error({ err: error }, 'a watch or source returned a key that no object can have: not enqueued');
      return;
    }
    const id = keyString(key);
    if (!this.#isWriter(id, options.writer)) this.#add(id, options, cause);
  };

  #add(key: string, { priority, event }: EnqueueOptions, cause: Cause | undefined): void {
    const pauseMs = event?.type === 'modified' ? this.#pauseMs(key, event) : 0;
    if (pauseMs > 0) this.#queue.addAfter(key, pauseMs, priority === undefined ? {} : { priority }, overwrite);
    else this.#queue.add(key, { priority, isEvent: event !== undefined }, this.#isTakingOver ? takeover : cause);
  }

  #pauseMs(key: string, event: Modified): number {
    const { pauseMs, isFirst } = this.#overwrites.pause(key, event, performance.now());
    if (isFirst) {
      this.#log.warn(
        { object: key, written: keyString(event.object.metadata) },
        'another client overwrites what this controller writes, again and again: correcting it after pauses',
      );
    }
    return pauseMs;
  }

  /** Runs the sources and the resyncs until they are stopped. */
  async #runSources(): Promise<void> {
    const { signal } = this.#stopSources;
    const enqueue: Enqueue = (key, options) => this.#enqueue(key, options, source);
    const sources = typeof this.#sources === 'function' ? this.#sources() : this.#sources;
    const running = sources.map((each) => runSource(each, { enqueue, signal, log: this.#log }));
    if (this.#resyncEveryMs !== undefined) running.push(this.#resync(this.#resyncEveryMs, signal));
    await Promise.all(running);
  }

  async #resync(everyMs: number, signal: AbortSignal): Promise<void> {
    for (;;) {
      await pause(Math.min(everyMs * (0.9 + Math.random() / 5), maxTimerMs), signal);
      let left = resyncBatch;
      for (const { metadata } of this.#informer.store.list()) {
        if (signal.aborted) return;
        this.#queue.add(keyString(metadata), { priority: 'low' }, resync);
        left -= 1;
        if (left > 0) continue;
        left = resyncBatch;
        await nextTurn();
      }
      if (signal.aborted) return;
    }
  }

  /** How long the slowest reconcile has exceeded its time limit, in milliseconds; 0 or less if none has. */
  get overrunMs(): number {
    return this.#limit?.overrunMs() ?? 0;
  }

  async #work(signal: AbortSignal): Promise<void> {
    for (let key = await this.#nextKey(); key !== undefined; key = await this.#nextKey()) {
      const item = this.#queue.processing(key);
      const timer = this.#limit?.start();
      const reconciling = this.#reconcileOne(key, item, timer, signal).then((requests) => {
        // A request of a failed reconcile may still take effect. The next reconcile must see that.
        requests.end(() => this.#queue.done(key));
      });
      await (timer === undefined ? reconciling : Promise.race([reconciling, timer.expired]));
      if (timer?.timedOut()) this.#detachFromWorker(key, reconciling);
    }
  }

  /**
   * Reconciles without a request wait only for microtasks: without the pause, thousands of them would block the
   * process.
   */
  async #nextKey(): Promise<string | undefined> {
    if (performance.now() - this.#yieldedAtMs >= maxTurnMs) {
      this.#yielding ??= this.#yield();
      await this.#yielding;
    }
    return this.#queue.next();
  }

  async #yield(): Promise<void> {
    await nextTurn();
    this.#yieldedAtMs = performance.now();
    this.#yielding = undefined;
  }

  /** A reconcile that ignores its time limit keeps its key, but not its worker. */
  #detachFromWorker(key: string, reconciling: Promise<void>): void {
    this.#overrunning.add(reconciling);
    const timer = setTimeout(() => {
      this.#log.error({ object: key }, 'a reconcile goes on after its time limit: its key waits until it ends');
    }, loggedOverrunMs).unref();
    const forget = (): void => {
      clearTimeout(timer);
      this.#overrunning.delete(reconciling);
    };
    // A rejected promise stays in the set, so that `run` throws its error.
    reconciling.then(forget, () => clearTimeout(timer));
  }

  async #reconcileOne(
    key: string,
    item: Readonly<QueueItem> | undefined,
    timer: ReconcileTimer | undefined,
    runSignal: AbortSignal,
  ): Promise<ReconcileRequests> {
    const log = new LazyLog(this.#log, key);
    const signal = timer?.signal ?? runSignal;
    const startedAtMs = performance.now();
    this.#metrics.started();
    const trace = this.#observer?.started(key, startedAtMs, item, this.#queue.failures(key));
    const priorFailures = this.#priorFailures(key);
    const requests = new ReconcileRequests(this.#client, {
      key,
      controller: this,
      informersOf: this.#informersOf,
      wrote: (delta, body) => this.#overwrites.wrote(key, delta, body),
      enqueue: () => this.#queue.add(key, {}, missed),
      signal,
      trace,
    });
    const { client } = requests;
    const context = { client, signal, log, priorFailures };
    const conclusion = await conclusionOf(parseKey(key), this.#reconcile, context, timer);
    const { label, failure } = this.#finish(key, conclusion, log);
    timer?.stop();
    const endedAtMs = performance.now();
    this.#metrics.finished(label, (endedAtMs - startedAtMs) / 1000, failure);
    if (item?.eventAtMs !== undefined) this.#metrics.followedEvent?.((endedAtMs - item.eventAtMs) / 1000);
    const error = 'error' in conclusion ? conclusion.error : undefined;
    trace?.ended(label, failure, error, { endedAtMs, nextAtMs: this.#queue.dueAtMs(key) });
    return requests;
  }

  /** The failures of the key before this reconcile. */
  #priorFailures(key: string): FailedReconciles | undefined {
    const timeout = this.#timeouts.get(key);
    this.#timeouts.delete(key);
    const failures = this.#queue.failuresInARow(key);
    return failures && { count: failures.count, since: failures.since, timeout };
  }

  #stateOf(key: ObjectKey, predicate: Predicate<T> | undefined): ControllerKeyState {
    const { namespaces, store } = this.#informer;
    const id = keyString(key);
    const object = store.get(key);
    return {
      ...this.#queue.stateOf(id),
      isInScope: namespaces === undefined || (key.namespace !== undefined && namespaces.includes(key.namespace)),
      isCached: object !== undefined,
      isFiltered: object !== undefined && !passes(predicate, { type: 'added', object }),
    };
  }

  #unfinished(): readonly UnfinishedKey[] {
    return Array.from(this.#queue.allProcessing(), ({ key, addedAtMs }) => ({
      key: parseKey(key),
      sinceMs: addedAtMs,
    }));
  }

  /** Acts on the end of a reconcile: whether and when its key runs again, and what is logged and counted. */
  #finish(
    key: string,
    conclusion: ReconcileConclusion,
    log: Logger,
  ): { readonly label: ResultLabel; readonly failure?: FailureKind } {
    switch (conclusion.type) {
      case 'done':
        this.#queue.forget(key);
        return { label: 'success' };
      case 'requeueAfter':
        this.#queue.addAfter(key, conclusion.delayMs);
        this.#queue.forget(key);
        return { label: 'requeue_after' };
      case 'retry':
        log.debug({ err: conclusion.error }, 'the status reports the failure: retrying with backoff');
        this.#queue.addRateLimited(key);
        return { label: 'error' };
      case 'namespaceTerminating':
        // This is not an error of the operator: the object is deleted with its namespace, and its DELETED event
        // enqueues the key.
        this.#queue.forget(key);
        return { label: 'success' };
      case 'gateClosed':
        // The leader elector logs why the gate closed. A retry is pointless: a closed gate never reopens.
        // `NotLeadingError` before leading cannot occur here: the manager starts workers only once this process leads.
        log.debug({ err: conclusion.error }, 'reconcile aborted: this process may no longer write');
        return { label: 'error' };
      case 'timedOut':
        log.error({ err: conclusion.error }, 'reconcile failed: trying again');
        this.#timeouts.set(key, conclusion.error);
        this.#queue.addRateLimited(key);
        return { label: 'error', failure: 'timeout' };
      case 'aborted':
        log.info({ err: asError(conclusion.error) }, 'reconcile failed after the drain timeout: not retried');
        return { label: 'error' };
      case 'terminal':
        log.error({ err: conclusion.error }, 'reconcile failed with a terminal error: not retried');
        this.#queue.forget(key);
        return { label: 'error', failure: 'terminal' };
      case 'conflict':
        // Conflicts are ordinary. Retry, because no event may follow: the store never sees an object that was created
        // and deleted between two lists. A Conflict that never ends has another cause, such as a wrong precondition.
        // The earlier failures may be of other kinds.
        this.#queue.addRateLimited(key);
        if (isPersistent(this.#queue.failuresInARow(key), new Date()))
          log.warn({ err: conclusion.error }, 'reconcile keeps failing, now with a conflict: retrying');
        else log.debug({ err: conclusion.error }, 'conflict: retrying');
        return { label: 'error' };
      case 'failed':
        this.#queue.addRateLimited(key);
        log.error({ err: asError(conclusion.error) }, 'reconcile failed: trying again');
        return isDefect(conclusion.error) ? { label: 'error', failure: 'panic' } : { label: 'error' };
    }
  }
}

/** How a reconcile has ended: with its result or with an error. */
type ReconcileConclusion =
  | Result
  | {
      readonly type:
        | 'namespaceTerminating'
        | 'gateClosed'
        | 'timedOut'
        | 'aborted'
        | 'terminal'
        /** A Conflict or AlreadyExists: the store was stale. */
        | 'conflict'
        | 'failed';
      readonly error: unknown;
    };

async function conclusionOf(
  key: ObjectKey,
  reconcile: Reconcile,
  context: ReconcileContext,
  timer: ReconcileTimer | undefined,
): Promise<ReconcileConclusion> {
  const { signal } = context;
  try {
    const result = await reconcile(key, context);
    return timer?.timedOut() ? { type: 'timedOut', error: signal.reason } : result;
  } catch (error) {
    // The terminating namespace of a child in another namespace does not delete this object, so that error is retried.
    if (key.namespace !== undefined && isNamespaceTerminating(error, key.namespace))
      return { type: 'namespaceTerminating', error };
    if (error instanceof GateClosedError) return { type: 'gateClosed', error };
    if (timer?.timedOut()) return { type: 'timedOut', error: signal.reason };
    if (signal.aborted) return { type: 'aborted', error };
    if (isTerminal(error)) return { type: 'terminal', error };
    return { type: isConflict(error) || isAlreadyExists(error) ? 'conflict' : 'failed', error };
  }
}

/** Most changes of only the status are the operator's own. */
const changesMoreThanStatus = (delta: Delta<KubeObject>): boolean =>
  delta.type === 'modified' && !differOnlyInStatus(delta.object, delta.previous);

const asError = (thrown: unknown): Error =>
  thrown instanceof Error
    ? thrown
    : new Error(`a value that is not an Error was thrown: ${inspect(thrown)}`, { cause: thrown });
