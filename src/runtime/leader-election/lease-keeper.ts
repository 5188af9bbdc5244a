import { setTimeout as delay } from 'node:timers/promises';
import { type Client, isAlreadyExists, isConflict, isNotFound } from '../client/index.ts';
import type { ObjectKey } from '../kind/index.ts';
import { Lease } from '../kinds/index.ts';
import type { Logger } from '../observability/index.ts';
import { LeadershipLostError } from './errors.ts';
import type { Fence } from './fence.ts';
import type { HolderContainer } from './holder-container.ts';
import { now } from './instant.ts';
import { claimed, holderOf, type LeaseClaim, newLease, released } from './lease.ts';
import { grantedSeconds, type LeaseTimings } from './timings.ts';

/** The kubelet waits for a process that ends, and so does the next leader. */
const releaseTimeoutMs = 3000;

/** What taking and keeping a Lease needs. */
export interface LeaseKeeperOptions {
  readonly client: Pick<Client, 'get' | 'create' | 'update'>;
  readonly lease: Required<ObjectKey>;
  readonly identity: string;
  readonly timings: LeaseTimings;
  readonly fence: Fence;
  readonly log: Logger;
}

/** Takes, renews and releases a Lease. Each write carries the resourceVersion of what was read or written before it. */
export class LeaseKeeper {
  readonly #options: LeaseKeeperOptions;
  /** A request that takes longer leaves no time for a second one. */
  readonly #timeoutMs: number;
  #held: Lease | undefined;
  #container: HolderContainer | undefined;

  constructor(options: LeaseKeeperOptions) {
    this.#options = options;
    this.#timeoutMs = (options.timings.renewDeadlineSeconds / 2) * 1000;
  }

  /**
   * Writes this candidate's name on the Lease, and opens the fence.
   *
   * @param lease as it was last seen; undefined makes a new one.
   * @param signal ends it, before half of the renew deadline does.
   * @throws what the client throws: a Conflict or AlreadyExists where somebody was faster.
   */
  async take(lease: Lease | undefined, signal?: AbortSignal): Promise<void> {
    const { client, lease: key, fence } = this.#options;
    const options = { signal: this.#limited(signal) };
    const sentAt = now();
    const claim = this.#claim();
    this.#held = await (lease === undefined
      ? client.create(Lease, newLease(key, claim), options)
      : client.update(Lease, claimed(lease, claim), options));
    fence.renewed(sentAt);
  }

  /** From the next renewal on, the Lease says in which container its holder runs. */
  publish(container: HolderContainer): void {
    this.#container = container;
  }

  /** Renews the Lease until the signal is aborted or the fence closes; closes it when another holds the Lease. */
  async renew(signal: AbortSignal): Promise<void> {
    const { fence, timings } = this.#options;
    const either = AbortSignal.any([signal, fence.signal]);
    while (!either.aborted) {
      const startedAtMs = performance.now();
      await this.#renewOnce(either);
      const leftMs = timings.retryPeriodSeconds * 1000 - (performance.now() - startedAtMs);
      await delay(Math.max(0, leftMs), undefined, { signal: either }).catch(() => {});
    }
  }

  /**
   * Leaves the Lease free, if our name is on it, so that another can take it at once. Failing that it expires, which is
   * logged. Takes three seconds at most: the process is about to end.
   */
  async release(): Promise<void> {
    const { client, log } = this.#options;
    const signal = AbortSignal.timeout(Math.min(this.#timeoutMs, releaseTimeoutMs));
    try {
      if (this.#held === undefined) return await this.#releaseIfOurs(signal);
      await client.update(Lease, released(this.#held), { signal }).catch(async (error: unknown) => {
        if (!isConflict(error)) throw error;
        // A renewal of ours whose answer did not come, or others' labels.
        await this.#releaseIfOurs(signal);
      });
      log.info({}, 'the lease is released');
    } catch (error) {
      if (!isNotFound(error)) log.warn({ err: error }, 'the lease could not be released: it expires');
    }
  }

  async #releaseIfOurs(signal: AbortSignal): Promise<void> {
    const { client, lease: key, identity } = this.#options;
    const lease = await client.get(Lease, key, { signal });
    if (holderOf(lease) === identity) await client.update(Lease, released(lease), { signal });
  }

  async #renewOnce(signal: AbortSignal): Promise<void> {
    const { fence, log } = this.#options;
    try {
      await this.take(this.#held, signal).catch((error: unknown) => this.#settle(error, signal));
    } catch (error) {
      if (!signal.aborted) {
        log.warn({ err: error, leadingForMs: fence.leftMs }, 'the lease could not be renewed: trying again');
      }
    }
  }

  /**
   * Somebody wrote on the Lease, or deleted it. That may have been a renewal of ours whose answer did not come, or who
   * labels it.
   *
   * @throws the error itself if it says nothing of the kind; whatever the client throws.
   */
  async #settle(error: unknown, signal: AbortSignal): Promise<void> {
    // Of an object that is gone the server says either, for what is sent has a uid.
    if (!isConflict(error) && !isNotFound(error) && !isAlreadyExists(error)) throw error;
    const { lease: key, identity, fence, log } = this.#options;
    const lease = await this.#read(signal);
    if (lease === undefined) {
      // Those who have seen it wait for as long as it was granted to us.
      log.warn({}, 'the lease is gone: making it again');
      // Whoever was faster may lead by now: that is settled at once, not when the next renewal is due.
      return this.take(undefined, signal).catch((failure: unknown) => {
        // Then it is the namespace that is gone: asked again at the next renewal.
        if (isNotFound(failure)) throw failure;
        return this.#settle(failure, signal);
      });
    }
    const holder = holderOf(lease);
    if (holder === identity) return this.take(lease, signal);
    const words = holder === undefined ? 'was released by somebody else' : `is held by ${holder}`;
    fence.close(new LeadershipLostError(`the lease ${key.namespace}/${key.name} ${words}`));
  }

  async #read(signal: AbortSignal): Promise<Lease | undefined> {
    const { client, lease } = this.#options;
    try {
      return await client.get(Lease, lease, { signal: this.#limited(signal) });
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  #claim(): LeaseClaim {
    const { identity, timings } = this.#options;
    return { holderIdentity: identity, leaseDurationSeconds: grantedSeconds(timings), container: this.#container };
  }

  #limited(signal: AbortSignal | undefined): AbortSignal {
    const timeout = AbortSignal.timeout(this.#timeoutMs);
    return signal === undefined ? timeout : AbortSignal.any([signal, timeout]);
  }
}
