import type { CacheProgress, Delta } from '../cache/index.ts';
import { type Client, isAlreadyExists, isConflict, isNamespaceTerminating } from '../client/index.ts';
import { type Kind, type KubeObject, keyOf, keyString, type ObjectKey } from '../kind/index.ts';
import type { Logger, Metrics, ReconcileObserver, ReconcileOutcome } from '../observability/index.ts';
import { WorkQueue } from '../queue/index.ts';
import { ReadYourWrites } from './read-your-writes.ts';
import { type Result, TerminalError } from './result.ts';
import { type InformerSource, owns, type Watch } from './watch.ts';

/** What a reconcile is given beside the key. */
export interface ReconcileContext {
  /** Its requests end with `signal`, and the key is not reconciled again before the stores have seen its writes. */
  readonly client: Client;
  /** Aborted when the time to drain is over: give up at once. */
  readonly signal: AbortSignal;
  /** Names the controller and the object in each line. */
  readonly log: Logger;
}

/**
 * Brings one object's world to what it asks for: read the stores, compare, act, report in status. Called with a key
 * whenever something changed that the key may depend on, and after a failure; never twice at once for one key. It must
 * be idempotent, and must rely on the stores alone, not on having seen an event. A throw is tried again with a growing
 * pause, a {@link TerminalError} is not.
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
  /** Changes of its own kind that matter. Default: all. */
  readonly predicate?: (delta: Delta<T>) => boolean;
  /** How many objects are reconciled at once. Default 4. */
  readonly workers?: number;
}

/** What the manager lends to a controller. */
export interface ControllerEnvironment {
  readonly client: Client;
  readonly informers: InformerSource;
  readonly log: Logger;
  readonly metrics: Metrics;
}

/** Turns changes into keys, and has its workers reconcile them. Made by `Manager.controller`. */
export class Controller<T extends KubeObject> {
  readonly name: string;
  readonly #workers: number;
  readonly #reconcile: Reconcile;
  readonly #client: Client;
  readonly #log: Logger;
  readonly #observer: ReconcileObserver;
  readonly #queue: WorkQueue;
  readonly #writes: ReadYourWrites;

  constructor(kind: Kind<T>, options: ControllerOptions<T>, environment: ControllerEnvironment) {
    this.name = options.name ?? kind.kind.toLowerCase();
    this.#workers = options.workers ?? 4;
    this.#reconcile = options.reconcile;
    this.#client = environment.client;
    this.#log = environment.log.child({ controller: this.name });
    this.#observer = environment.metrics.reconciles(this.name, this.#workers);
    this.#queue = new WorkQueue({ observer: environment.metrics.queue(this.name) });
    const informers = this.#attach(kind, options, environment.informers);
    this.#writes = new ReadYourWrites(informers, (key) => this.#queue.add(key));
  }

  /**
   * Reconciles until the queue is closed by {@link drain}; what a worker has begun it brings to its end.
   *
   * @param signal ends what is under way; given to every reconcile.
   */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all(Array.from({ length: this.#workers }, () => this.#work(signal)));
  }

  /** Takes no more work; {@link run} resolves when what is under way has ended. */
  drain(): void {
    this.#queue.close();
  }

  #attach(kind: Kind<T>, options: ControllerOptions<T>, informers: InformerSource): CacheProgress[] {
    const { predicate = () => true } = options;
    const own = informers(kind);
    own.addHandler((delta) => {
      if (predicate(delta)) this.#enqueue(keyOf(delta.object));
    });
    const others = [...(options.owns ?? []).map((child) => owns(kind, child)), ...(options.watches ?? [])];
    return [own, ...others.map((watch) => watch.attach(informers, (key) => this.#enqueue(key)))];
  }

  #enqueue(key: ObjectKey): void {
    this.#queue.add(keyString(key));
  }

  async #work(signal: AbortSignal): Promise<void> {
    for (let key = await this.#queue.next(); key !== undefined; key = await this.#queue.next()) {
      if (!this.#writes.parked(key)) await this.#reconcileOne(key, signal);
      this.#queue.done(key);
    }
  }

  async #reconcileOne(key: string, signal: AbortSignal): Promise<void> {
    const log = this.#log.child({ object: key });
    const startedAtMs = performance.now();
    this.#observer.started();
    let outcome: ReconcileOutcome = 'success';
    try {
      const client = this.#writes.client(this.#client, key, signal);
      const result = await this.#reconcile(parseKey(key), { client, signal, log });
      this.#queue.forget(key);
      this.#writes.follow(key);
      if (result.type === 'requeueAfter') {
        outcome = 'requeue_after';
        this.#queue.addAfter(key, result.delayMs);
      }
    } catch (error) {
      outcome = this.#failed(key, error, log, signal);
    } finally {
      this.#observer.finished(outcome, (performance.now() - startedAtMs) / 1000);
    }
  }

  #failed(key: string, error: unknown, log: Logger, signal: AbortSignal): ReconcileOutcome {
    if (isNamespaceTerminating(error)) {
      // Everything in the namespace is about to go; its objects' deletions arrive as events.
      this.#queue.forget(key);
      return 'success';
    }
    if (signal.aborted) {
      log.info({}, 'reconcile given up: the time to drain is over');
    } else if (error instanceof TerminalError) {
      log.error({ err: error }, 'reconcile failed, and trying again cannot help');
      this.#queue.forget(key);
    } else if (isConflict(error) || isAlreadyExists(error)) {
      // The store was behind: ordinary, and over with the next event. Which may never come: what came and went between
      // two lists, no store has seen.
      log.debug({ err: error }, 'reconcile met a conflict: trying again');
      this.#queue.addRateLimited(key);
    } else {
      log.error({ err: error }, 'reconcile failed: trying again');
      this.#queue.addRateLimited(key);
    }
    return 'error';
  }
}

/** The inverse of `keyString`: neither a name nor a namespace holds a slash. */
function parseKey(key: string): ObjectKey {
  const slash = key.indexOf('/');
  return slash === -1 ? { name: key } : { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}
