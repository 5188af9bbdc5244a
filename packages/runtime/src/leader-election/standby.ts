import { Lease } from '../built-in-kinds/built-in-kinds.ts';
import { Reflector, type ReflectorTarget } from '../cache/reflector.ts';
import { isNotFound } from '../client/api-error.ts';
import type { Client } from '../client/client.ts';
import type { ObjectKey } from '../kind/object.ts';
import type { Logger } from '../shared/logger.ts';
import { pause } from '../shared/pause.ts';
import type { CrashDetector } from './crash-detection/crash-detector.ts';
import { ObservedLease } from './observed-lease.ts';
import { addJitter, type LeaseTimings } from './timings.ts';

/** What {@link Standby} needs. */
export interface StandbyOptions {
  readonly client: Pick<Client, 'get' | 'list' | 'watchBatches'>;
  readonly lease: Required<ObjectKey>;
  readonly identity: string;
  readonly timings: LeaseTimings;
  readonly log: Logger;
  readonly crashDetector: CrashDetector | undefined;
  /** Called with the identity of each other candidate that becomes the holder. */
  readonly onNewLeader: (identity: string) => void;
}

/** The longest random pause after the Lease becomes free, so that standbys do not all write to it at once. */
const maxSpreadMs = 50;

/** A standby reads the Lease if its watch has been silent for this many retry periods. */
const silentRetryPeriods = 2;

/** The wait for the end of the holder's process. */
interface CrashWatch {
  readonly holder: string;
  readonly description: string;
  readonly controller: AbortController;
}

/** A candidate that waits. Watches the Lease, and with a crash detector also the process of the Lease's holder. */
export class Standby {
  readonly observed: ObservedLease;
  readonly #options: StandbyOptions;
  readonly #stopping = new AbortController();
  #watching: Promise<void> | undefined;
  /** Resolved and replaced whenever `observed` changes. */
  #change = Promise.withResolvers<void>();
  #leader: string | undefined;
  #crashWatch: CrashWatch | undefined;
  /** All crash watches that have not ended, including aborted ones. */
  readonly #crashWatches = new Set<Promise<void>>();

  constructor(options: StandbyOptions) {
    const { identity, timings, crashDetector } = options;
    this.#options = options;
    this.observed = new ObservedLease({
      identity,
      leaseDurationSeconds: timings.leaseDurationSeconds,
      descriptionAnnotation: crashDetector?.annotation,
    });
  }

  /**
   * Resolves when the Lease may be taken, as far as this standby has observed.
   *
   * @throws the signal's reason.
   */
  async waitUntilFree(signal: AbortSignal): Promise<void> {
    if (this.observed.msSinceObserved === Number.POSITIVE_INFINITY) await this.#readLease(signal);
    if (this.observed.msUntilFree === 0) return;
    this.#watching ??= this.#watchLease();
    while (this.observed.msUntilFree > 0) {
      await this.#waitForChange(signal);
      if (this.observed.msUntilFree > 0) continue;
      await pause(Math.random() * maxSpreadMs, signal);
      signal.throwIfAborted();
    }
  }

  /** Why the Lease may be taken, for logs. Call it before the Lease changes. */
  whyFree(): string {
    const leader = this.#leader === undefined ? '' : ` by ${this.#leader}`;
    switch (this.observed.freedBy) {
      case 'absence':
        return 'there was no lease';
      case 'release':
        return `the lease was released${leader}`;
      case 'ownClaim':
        return 'the lease named this candidate';
      case 'crash':
        return `the process of ${this.observed.holder} has ended`;
      case 'expiry':
        return `${this.observed.holder} did not renew the lease in time`;
    }
  }

  /** Stops watching. */
  stop(): void {
    this.#stopping.abort();
    this.#crashWatch?.controller.abort();
  }

  /** Stops watching, and resolves when all watches have ended. */
  async end(): Promise<void> {
    this.stop();
    await Promise.all([this.#watching, ...this.#crashWatches]);
  }

  /** Waits until the observed Lease changes or expires. If the watch is silent for too long, reads the Lease. */
  async #waitForChange(signal: AbortSignal): Promise<void> {
    const pollMs = addJitter(this.#options.timings.retryPeriodSeconds * 1000 * silentRetryPeriods);
    const { msUntilFree, msSinceObserved } = this.observed;
    const waitMs = Math.min(msUntilFree, Math.max(1, pollMs - msSinceObserved));
    const waiting = new AbortController();
    const timer = pause(waitMs, AbortSignal.any([signal, waiting.signal])).then(() => 'timeout' as const);
    const first = await Promise.race([this.#change.promise, timer]);
    waiting.abort();
    signal.throwIfAborted();
    if (first === 'timeout' && this.observed.msUntilFree > 0) await this.#readLease(signal);
  }

  /** Reads the Lease. After an error it only pauses, because {@link waitUntilFree} calls it again. */
  async #readLease(signal: AbortSignal): Promise<void> {
    const { client, lease, timings, log } = this.#options;
    const timeout = AbortSignal.timeout((timings.renewDeadlineSeconds / 2) * 1000);
    try {
      this.#observe(await client.get(Lease, lease, { signal: AbortSignal.any([signal, timeout]) }));
    } catch (error) {
      signal.throwIfAborted();
      if (isNotFound(error)) this.#observeAbsence();
      else {
        log.warn({ err: error }, 'the lease cannot be read: trying again');
        await this.#pause(timings.retryPeriodSeconds * 1000, signal);
      }
    }
  }

  /** Resolves after the time, or as soon as the watch reports a change. */
  async #pause(pauseMs: number, signal: AbortSignal): Promise<void> {
    const done = new AbortController();
    const timer = pause(pauseMs, AbortSignal.any([signal, done.signal]));
    await Promise.race([this.#change.promise, timer]);
    done.abort();
  }

  #watchLease(): Promise<void> {
    const { client, lease, timings, log } = this.#options;
    const reflector = new Reflector<Lease>({
      client,
      kind: Lease,
      selection: { namespace: lease.namespace, fieldSelector: `metadata.name=${lease.name}` },
      target: this.#target(),
      log,
      listing: 'paged',
      // Short, so that a watch on a dead connection ends soon. Until then the standby reads the Lease itself.
      watchTimeoutSeconds: Math.max(timings.leaseDurationSeconds, 60),
      backoff: { initialMs: 100, maxMs: timings.retryPeriodSeconds * 1000 },
    });
    return reflector.run(this.#stopping.signal);
  }

  #target(): ReflectorTarget<Lease> {
    return {
      prepare: (lease) => lease,
      replace: ([lease]) => (lease === undefined ? this.#observeAbsence() : this.#observe(lease)),
      takeEvents: (events) => {
        for (const event of events) {
          if (event.type === 'DELETED') this.#observeAbsence();
          else if (event.type !== 'BOOKMARK') this.#observe(event.object);
        }
      },
    };
  }

  #observe(lease: Lease): void {
    this.observed.observe(lease);
    this.#notifyNewLeader();
    this.#watchHolder();
    this.#notifyChange();
  }

  #observeAbsence(): void {
    this.observed.observeAbsence();
    this.#notifyChange();
  }

  #notifyChange(): void {
    this.#change.resolve();
    this.#change = Promise.withResolvers();
  }

  #notifyNewLeader(): void {
    const { holder } = this.observed;
    // The watch may deliver our own claim before the response to it arrives.
    if (holder === undefined || holder === this.#leader || holder === this.#options.identity) return;
    this.#leader = holder;
    this.#options.onNewLeader(holder);
  }

  /** Waits for the end of the current holder's process. Stops waiting for the previous holder. */
  #watchHolder(): void {
    const { crashDetector } = this.#options;
    const { holder, description } = this.observed;
    const current = this.#crashWatch;
    if (crashDetector === undefined) return;
    if (current !== undefined && holder === current.holder && description === current.description) return;
    current?.controller.abort();
    this.#crashWatch = undefined;
    if (holder === undefined || description === undefined) return;
    const controller = new AbortController();
    this.#crashWatch = { holder, description, controller };
    const onEnded = () => {
      this.observed.markEnded(holder, description);
      this.#notifyChange();
    };
    // `waitForEnd` rejects only with the signal's reason.
    const watch = crashDetector.waitForEnd(holder, description, controller.signal).then(onEnded, () => {});
    this.#crashWatches.add(watch);
    void watch.then(() => this.#crashWatches.delete(watch));
  }
}
