import { setTimeout as delay } from 'node:timers/promises';
import { Reflector, type ReflectorTarget } from '../cache/reflector.ts';
import { type Client, isNotFound } from '../client/index.ts';
import type { ObjectKey } from '../kind/index.ts';
import type { Logger } from '../observability/index.ts';
import { type HolderContainer, type HolderContainers, isSameContainer } from './holder-container.ts';
import { Lease } from './lease.ts';
import { ObservedLease } from './observed-lease.ts';
import { jittered, type LeaseTimings } from './timings.ts';

/** What a standby needs. */
export interface StandbyOptions {
  readonly client: Pick<Client, 'get' | 'list' | 'watchBatches'>;
  readonly lease: Required<ObjectKey>;
  readonly identity: string;
  readonly timings: LeaseTimings;
  readonly log: Logger;
  readonly containers: HolderContainers | undefined;
  readonly onNewLeader: (identity: string) => void;
}

/** Standbys that see a Lease become free in the same moment do not all ask for it in that moment. */
const spreadMs = 50;

/** For how long nothing may be heard of the Lease, in retry periods, before it is asked for. */
const patience = 2;

/** A candidate that waits: it watches the Lease, and the container of its holder, and tells when the Lease may be taken. */
export class Standby {
  readonly observed: ObservedLease;
  readonly #options: StandbyOptions;
  readonly #ending = new AbortController();
  #watching: Promise<void> | undefined;
  #change = Promise.withResolvers<void>();
  #leader: string | undefined;
  /** Waits for the end of this container. */
  #mourned: { readonly container: HolderContainer; readonly controller: AbortController } | undefined;
  readonly #mourning = new Set<Promise<void>>();

  constructor(options: StandbyOptions) {
    this.#options = options;
    this.observed = new ObservedLease(options.identity, options.timings.leaseDurationSeconds);
  }

  /**
   * Resolves when the Lease may be taken, as far as is known here.
   *
   * @throws the signal's reason.
   */
  async untilFree(signal: AbortSignal): Promise<void> {
    if (this.observed.silentMs === Number.POSITIVE_INFINITY) await this.#look(signal);
    if (this.observed.freeInMs === 0) return;
    this.#watching ??= this.#watch();
    while (this.observed.freeInMs > 0) {
      await this.#untilChange(signal);
      if (this.observed.freeInMs > 0) continue;
      await delay(Math.random() * spreadMs, undefined, { signal }).catch(() => {});
      signal.throwIfAborted();
    }
  }

  /** Stops watching. */
  stop(): void {
    this.#ending.abort();
    this.#mourned?.controller.abort();
  }

  /** Stops watching, and resolves when nothing of it goes on. */
  async end(): Promise<void> {
    this.stop();
    await Promise.all([this.#watching, ...this.#mourning]);
  }

  /** Until something was seen, the Lease expires, or nothing was heard for so long that it is asked for. */
  async #untilChange(signal: AbortSignal): Promise<void> {
    const pollMs = jittered(this.#options.timings.retryPeriodSeconds * 1000 * patience);
    const { freeInMs, silentMs } = this.observed;
    const waitMs = Math.min(freeInMs, Math.max(1, pollMs - silentMs));
    const waiting = new AbortController();
    const timer = delay(waitMs, 'time' as const, { signal: AbortSignal.any([signal, waiting.signal]) });
    const came = await Promise.race([this.#change.promise, timer.catch(() => {})]);
    waiting.abort();
    signal.throwIfAborted();
    if (came === 'time' && this.observed.freeInMs > 0) await this.#look(signal);
  }

  /** Reads the Lease. What keeps it from being read is waited out: {@link untilFree} comes back to it. */
  async #look(signal: AbortSignal): Promise<void> {
    const { client, lease, timings, log } = this.#options;
    const timeout = AbortSignal.timeout((timings.renewDeadlineSeconds / 2) * 1000);
    try {
      this.#saw(await client.get(Lease, lease, { signal: AbortSignal.any([signal, timeout]) }));
    } catch (error) {
      signal.throwIfAborted();
      if (isNotFound(error)) this.#sawNone();
      else {
        log.warn({ err: error }, 'the lease cannot be read: trying again');
        await this.#pause(timings.retryPeriodSeconds * 1000, signal);
      }
    }
  }

  /** Until something was seen, or so long. */
  async #pause(pauseMs: number, signal: AbortSignal): Promise<void> {
    const done = new AbortController();
    const timer = delay(pauseMs, undefined, { signal: AbortSignal.any([signal, done.signal]) }).catch(() => {});
    await Promise.race([this.#change.promise, timer]);
    done.abort();
  }

  #watch(): Promise<void> {
    const { client, lease, timings, log } = this.#options;
    const reflector = new Reflector<Lease>({
      client,
      kind: Lease,
      selection: { namespace: lease.namespace, fieldSelector: `metadata.name=${lease.name}` },
      target: this.#target(),
      log,
      listing: 'paged',
      // Soon over where its connection has died; meanwhile the Lease is asked for.
      watchTimeoutSeconds: Math.max(timings.leaseDurationSeconds, 60),
      backoff: { initialMs: 100, maxMs: timings.retryPeriodSeconds * 1000 },
    });
    return reflector.run(this.#ending.signal);
  }

  #target(): ReflectorTarget<Lease> {
    return {
      prepare: (lease) => lease,
      replace: ([lease]) => (lease === undefined ? this.#sawNone() : this.#saw(lease)),
      apply: (events) => {
        for (const event of events) {
          if (event.type === 'DELETED') this.#sawNone();
          else if (event.type !== 'BOOKMARK') this.#saw(event.object);
        }
      },
    };
  }

  #saw(lease: Lease): void {
    this.observed.saw(lease);
    this.#tellLeader();
    this.#mourn();
    this.#changed();
  }

  #sawNone(): void {
    this.observed.sawNone();
    this.#changed();
  }

  #changed(): void {
    this.#change.resolve();
    this.#change = Promise.withResolvers();
  }

  #tellLeader(): void {
    const { holder } = this.observed;
    // Ourselves: the watch tells of our own claim before its answer does.
    if (holder === undefined || holder === this.#leader || holder === this.#options.identity) return;
    this.#leader = holder;
    this.#options.onNewLeader(holder);
  }

  /** Waits for the end of the container that the holder says it runs in, once for each. */
  #mourn(): void {
    const { containers } = this.#options;
    const { container } = this.observed;
    if (containers === undefined || isSameContainer(container, this.#mourned?.container)) return;
    this.#mourned?.controller.abort();
    this.#mourned = undefined;
    if (container === undefined) return;
    const controller = new AbortController();
    this.#mourned = { container, controller };
    const ended = () => {
      this.#options.log.info({ container: container.containerId }, "the leader's container has ended");
      this.observed.sawEnd(container);
      this.#changed();
    };
    // It rejects with the signal's reason alone.
    const mourning = containers.ended(container, controller.signal).then(ended, () => {});
    this.#mourning.add(mourning);
    void mourning.then(() => this.#mourning.delete(mourning));
  }
}
