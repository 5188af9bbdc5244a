import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import { inspect } from 'node:util';
import type { CacheProgress, Informer, InformerOptions } from '../cache/index.ts';
import { isDefect } from '../cache/is-defect.ts';
import { type Client, GateClosedError, isAlreadyExists, isConflict, isNamespaceTerminating } from '../client/index.ts';
import { type Kind, type KubeObject, keyString, type ObjectKey } from '../kind/index.ts';
import type { Logger, Metrics, ReconcileFailure, ReconcileObserver, ReconcileOutcome } from '../observability/index.ts';
import { type RetryOptions, WorkQueue } from '../queue/index.ts';
import { LazyLog } from './lazy-log.ts';
import type { Predicate } from './predicate.ts';
import { ReadYourWrites } from './read-your-writes.ts';
import { type Result, TerminalError } from './result.ts';
import { type EventSource, runSource } from './source.ts';
import { TimeLimit } from './time-limit.ts';
import { type Enqueue, type InformerSource, owns, urgencyOf, type Watch } from './watch.ts';

/** What a reconcile is given beside the key. */
export interface ReconcileContext {
  /** Its requests end with `signal`, and the key is not reconciled again before the caches have observed its writes. */
  readonly client: Client;
  /** Aborted when the reconcile's time is over (with a TimeoutError), or that to drain: give up at once. */
  readonly signal: AbortSignal;
  /** Names the controller and the object in each line. */
  readonly log: Logger;
}

/**
 * Brings one object's world to what it asks for: read the stores, compare, act, report in status. Called with a key
 * whenever something changed that the key may depend on, and after a failure; never twice at once for one key. It must
 * be idempotent, and must rely on the stores alone, not on having seen an event.
 *
 * Whatever it throws is logged, counted, and tried again with a growing pause; but for a {@link TerminalError}, which is
 * not tried again, and for what ends the reconcile in silence: the API server's word that the key's own namespace is being
 * deleted, and a {@link GateClosedError}.
 */
export type Reconcile = (key: ObjectKey, context: ReconcileContext) => Promise<Result>;

/** What a controller is made of. */
export interface ControllerOptions<T extends KubeObject> {
  /** Stands in logs and metrics. Default: the kind's name in lower case. */
  readonly name?: string;
  readonly reconcile: Reconcile;
  /** Kinds whose objects are made by this controller and carry its controller reference. */
  readonly owns?: readonly Kind[];
  /** Other kinds; see {@link watches}. */
  readonly watches?: readonly Watch[];
  /** Where else keys come from; see {@link EventSource}. */
  readonly sources?: readonly EventSource[];
  /** Changes of its own kind that matter: `or(generationChanged, labelsChanged)`. Default: all. */
  readonly predicate?: Predicate<T>;
  /** What the informer of its own kind is to hold; see `Manager.informer`. */
  readonly informer?: InformerOptions<T>;
  /** How many objects are reconciled at once. Default 4. */
  readonly workers?: number;
  /**
   * How long a reconcile may take, in milliseconds. After that its signal is aborted, and however it then ends, it has
   * failed and is tried again: not before it has ended, for its key is never with two workers. Default: any time.
   */
  readonly reconcileTimeoutMs?: number;
  /**
   * Reconcile every object that often, in milliseconds, give or take a tenth, with low priority, even if nothing
   * changes. For what a watch cannot tell better use `requeueAfter`. Default: never.
   */
  readonly resyncEveryMs?: number;
  /** When a reconcile that failed is tried again. */
  readonly retries?: RetryOptions;
  /**
   * How long a watch may take to bring a write of this controller's own, in milliseconds, before it is replaced.
   * Default 10,000.
   */
  readonly observationTimeoutMs?: number;
}

/** What the manager lends to a controller. */
export interface ControllerEnvironment {
  readonly client: Client;
  readonly informers: InformerSource;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'reconciles' | 'queue' | 'watchesReplaced'>;
}

/** A resync lets others have their turn after so many keys. */
const resyncPortion = 1000;

/** A timer set for longer than this Node fires at once. */
const maxTimerMs = 2 ** 31 - 1;

/** Turns changes into keys, and has its workers reconcile them. Made by `Manager.controller`. */
export class Controller<T extends KubeObject> {
  readonly name: string;
  readonly #workers: number;
  readonly #reconcile: Reconcile;
  readonly #reconcileTimeoutMs: number | undefined;
  readonly #resyncEveryMs: number | undefined;
  readonly #sources: readonly EventSource[];
  readonly #client: Client;
  readonly #log: Logger;
  readonly #observer: ReconcileObserver;
  /** While it runs, if reconciles have a time limit. */
  #limit: TimeLimit | undefined;
  readonly #queue: WorkQueue;
  readonly #own: Informer<T>;
  readonly #writes: ReadYourWrites;
  /** Attaches it once more, as the constructor did. */
  readonly #reattach: () => void;
  /** One for each handler; empty while it hears nothing. */
  readonly #detach: (() => void)[] = [];
  /** Aborted when no more keys are to come. */
  readonly #feeding = new AbortController();

  /** @throws RangeError for numbers that make no sense. */
  constructor(kind: Kind<T>, options: ControllerOptions<T>, environment: ControllerEnvironment) {
    const { name = kind.kind.toLowerCase(), workers = 4, reconcileTimeoutMs, resyncEveryMs } = options;
    const observationTimeoutMs = checked('observationTimeoutMs', options.observationTimeoutMs);
    if (!(Number.isInteger(workers) && workers > 0)) throw new RangeError(`workers are 1 at least, not ${workers}`);
    this.name = name;
    this.#workers = workers;
    this.#reconcile = options.reconcile;
    this.#reconcileTimeoutMs = checked('reconcileTimeoutMs', reconcileTimeoutMs);
    this.#resyncEveryMs = checked('resyncEveryMs', resyncEveryMs);
    this.#sources = options.sources ?? [];
    this.#client = environment.client;
    this.#log = environment.log.child({ controller: name });
    this.#observer = environment.metrics.reconciles(name, workers);
    this.#queue = new WorkQueue({ ...options.retries, observer: environment.metrics.queue(name) });
    this.#own = environment.informers(kind, options.informer);
    const others = this.#attached(kind, options, environment.informers);
    this.#reattach = () => this.#attached(kind, options, environment.informers);
    this.#writes = new ReadYourWrites([this.#own, ...others], {
      enqueue: (key) => this.#queue.add(key),
      log: this.#log,
      timeoutMs: observationTimeoutMs,
      watchReplaced: environment.metrics.watchesReplaced(name),
    });
  }

  /**
   * Hears nothing from its informers before {@link run}, which then hears of all that they hold: a standby's queue would
   * keep the key of every object that ever was.
   */
  standBy(): void {
    this.#deafen();
  }

  /**
   * Begins to hear its sources and reconciles, until {@link drain} is called; what a worker has begun it brings to its
   * end. The caches must have synced.
   *
   * @param signal ends what is under way; given to every reconcile.
   * @throws whatever a worker threw that is not a reconcile's error: a defect.
   */
  async run(signal: AbortSignal): Promise<void> {
    const limit = this.#reconcileTimeoutMs === undefined ? undefined : new TimeLimit(this.#reconcileTimeoutMs, signal);
    this.#limit = limit;
    if (this.#detach.length === 0) this.#reattach();
    const feeding = this.#feed();
    try {
      await Promise.all(Array.from({ length: this.#workers }, () => this.#work(signal, limit)));
    } finally {
      this.drain();
      await feeding;
    }
  }

  /** Takes no more work; {@link run} resolves when what is under way has ended. */
  drain(): void {
    this.#feeding.abort();
    this.#queue.close();
  }

  /** Hears nothing more from its informers. For a controller that is removed while they go on. */
  detach(): void {
    this.#deafen();
    this.#writes.detach();
  }

  #deafen(): void {
    for (const detach of this.#detach.splice(0)) detach();
  }

  /** Nothing, if not all: a kind's informer may be refused. */
  #attached(kind: Kind<T>, options: ControllerOptions<T>, informers: InformerSource): readonly CacheProgress[] {
    try {
      return this.#attach(kind, options, informers);
    } catch (error) {
      this.#deafen();
      throw error;
    }
  }

  #attach(kind: Kind<T>, options: ControllerOptions<T>, informers: InformerSource): readonly CacheProgress[] {
    const { predicate } = options;
    const detach = this.#own.addHandler((delta, origin) => {
      if (predicate === undefined || predicate(delta)) {
        this.#queue.add(keyString(delta.object.metadata), urgencyOf(origin));
      }
    });
    this.#detach.push(detach);
    const others = [...(options.owns ?? []).map((child) => owns(kind, child)), ...(options.watches ?? [])];
    return others.map((watch) => {
      const attachment = watch.attach(informers, this.#enqueue);
      this.#detach.push(() => attachment.detach());
      return attachment.informer;
    });
  }

  readonly #enqueue: Enqueue = (key, options) => this.#queue.add(keyString(key), options);

  async #feed(): Promise<void> {
    const { signal } = this.#feeding;
    const running = this.#sources.map((source) =>
      runSource(source, { enqueue: this.#enqueue, signal, log: this.#log }),
    );
    if (this.#resyncEveryMs !== undefined) running.push(this.#resync(this.#resyncEveryMs, signal));
    await Promise.all(running);
  }

  async #resync(everyMs: number, signal: AbortSignal): Promise<void> {
    for (;;) {
      await delay(Math.min(everyMs * (0.9 + Math.random() / 5), maxTimerMs), undefined, { signal }).catch(() => {});
      let left = resyncPortion;
      for (const { metadata } of this.#own.store.list()) {
        if (signal.aborted) return;
        this.#queue.add(keyString(metadata), { priority: 'low' });
        left -= 1;
        if (left > 0) continue;
        left = resyncPortion;
        await nextTurn();
      }
      if (signal.aborted) return;
    }
  }

  /** How long, in milliseconds, the slowest reconcile has gone on after its time limit; 0 or less where none has. */
  get overrunMs(): number {
    return this.#limit?.overrunMs() ?? 0;
  }

  async #work(signal: AbortSignal, limit: TimeLimit | undefined): Promise<void> {
    for (let key = await this.#queue.next(); key !== undefined; key = await this.#queue.next()) {
      if (!this.#writes.defer(key)) await this.#reconcileOne(key, signal, limit);
      this.#queue.done(key);
    }
  }

  async #reconcileOne(key: string, all: AbortSignal, limit: TimeLimit | undefined): Promise<void> {
    const log = new LazyLog(this.#log, { object: key });
    const clock = limit?.start();
    const signal = clock?.signal ?? all;
    const startedAtMs = performance.now();
    this.#observer.started();
    let end: Ending = { outcome: 'success' };
    try {
      const client = this.#writes.client(this.#client, key, signal);
      const result = await this.#reconcile(parseKey(key), { client, signal, log });
      if (clock?.timedOut()) throw signal.reason;
      end = this.#ended(key, result, log);
    } catch (error) {
      end = clock?.timedOut() ? this.#timedOut(key, signal.reason, log) : this.#failed(key, error, log, signal);
    } finally {
      clock?.stop();
      this.#observer.finished(end.outcome, (performance.now() - startedAtMs) / 1000, end.failure);
    }
  }

  #ended(key: string, result: Result, log: Logger): Ending {
    if (result.type === 'retry') {
      log.debug({ err: result.error }, 'the failure is reported: trying again');
      this.#queue.addRateLimited(key);
      return { outcome: 'error' };
    }
    if (result.type === 'requeueAfter') this.#queue.addAfter(key, result.delayMs);
    this.#queue.forget(key);
    return result.type === 'requeueAfter' ? { outcome: 'requeue_after' } : { outcome: 'success' };
  }

  #timedOut(key: string, error: unknown, log: Logger): Ending {
    log.error({ err: error }, 'reconcile failed: trying again');
    this.#queue.addRateLimited(key);
    return { outcome: 'error', failure: 'timeout' };
  }

  #failed(key: string, error: unknown, log: Logger, signal: AbortSignal): Ending {
    const { namespace } = parseKey(key);
    if (namespace !== undefined && isNamespaceTerminating(error, namespace)) {
      // The object itself is about to go, which comes as an event. Of another namespace the rest of the work is left.
      this.#queue.forget(key);
      return { outcome: 'success' };
    }
    if (signal.aborted) {
      log.info({}, 'reconcile given up: the time to drain is over');
      return { outcome: 'error' };
    }
    if (error instanceof GateClosedError) {
      // Told once, by whoever closed it. It opens no more, so there is nothing to try again.
      log.debug({ err: error }, 'reconcile given up: nothing may be sent any more');
      return { outcome: 'error' };
    }
    if (error instanceof TerminalError) {
      log.error({ err: error }, 'reconcile failed, and trying again cannot help');
      this.#queue.forget(key);
      return { outcome: 'error', failure: 'terminal' };
    }
    this.#queue.addRateLimited(key);
    if (isConflict(error) || isAlreadyExists(error)) {
      // The store was behind: ordinary, and over with the next event. Which may never come: what came and went between
      // two lists, no store has seen.
      log.debug({ err: error }, 'reconcile met a conflict: trying again');
      return { outcome: 'error' };
    }
    log.error({ err: asError(error) }, 'reconcile failed: trying again');
    return isDefect(error) ? { outcome: 'error', failure: 'panic' } : { outcome: 'error' };
  }
}

interface Ending {
  readonly outcome: ReconcileOutcome;
  readonly failure?: ReconcileFailure;
}

const asError = (thrown: unknown): Error =>
  thrown instanceof Error ? thrown : new Error(`no Error was thrown, but ${inspect(thrown)}`, { cause: thrown });

/** @throws RangeError for a time that a timer cannot wait for: it would fire at once. */
export function checked(name: string, timeMs: number | undefined): number | undefined {
  if (timeMs === undefined || (timeMs > 0 && timeMs <= maxTimerMs)) return timeMs;
  throw new RangeError(`${name} takes milliseconds from above 0 to ${maxTimerMs}, not ${timeMs}`);
}

/** The inverse of `keyString`: neither a name nor a namespace holds a slash. */
function parseKey(key: string): ObjectKey {
  const slash = key.indexOf('/');
  return slash === -1 ? { name: key } : { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}
