import type { AnyInformer } from '../cache/index.ts';
import { type Kind, resourceName } from '../kind/index.ts';
import type { Logger } from '../observability/index.ts';

/** A write or read by a key's reconcile that a cache has not observed yet. */
export interface Minimum {
  readonly key: string;
  readonly kind: Kind;
  /** The namespace and name of the object that was written or read. */
  readonly writtenKey: string;
  readonly uid: string;
  /** Undefined for a deletion. */
  readonly version: string | undefined;
  /** The type of the delta that shows only this write: `added` of a creation, `modified` of a status write. */
  readonly ownDelta?: 'added' | 'modified' | undefined;
  /** When it was set, by `performance.now`. */
  readonly sinceMs: number;
  readonly isObserved: () => boolean;
}

/** Options of a {@link WatchReplacer}, as in `ReadYourWritesOptions`. */
export interface ReplacementOptions {
  readonly log: Logger;
  readonly timeoutMs: number;
  readonly watchReplaced: (resource: string) => void;
}

/** A minimum is given up after this many times the timeout, if the kind has been unavailable meanwhile. */
const maxTimeouts = 30;

/**
 * Replaces the watch of a partition if it does not deliver a write in time: the first time by one that resumes, then by one that lists.
 * While the kind is unavailable, gives up minimums that are far overdue.
 */
export class WatchReplacer {
  readonly #informer: AnyInformer;
  readonly #namespace: string | undefined;
  /** Oldest first. */
  readonly #minimums: ReadonlySet<Minimum>;
  readonly #options: ReplacementOptions;
  readonly #giveUp: (minimum: Minimum) => void;
  #timer: NodeJS.Timeout | undefined;
  /** The minimum for which the watch was last replaced. */
  #replacedFor: Minimum | undefined;
  /** The minimum for which the watch was last too young to be replaced. */
  #tooYoungFor: Minimum | undefined;

  /** @param giveUp removes the minimum. */
  constructor(
    partition: {
      readonly informer: AnyInformer;
      readonly namespace: string | undefined;
      readonly minimums: ReadonlySet<Minimum>;
    },
    options: ReplacementOptions,
    giveUp: (minimum: Minimum) => void,
  ) {
    this.#informer = partition.informer;
    this.#namespace = partition.namespace;
    this.#minimums = partition.minimums;
    this.#options = options;
    this.#giveUp = giveUp;
  }

  /** A minimum was added. Idempotent. */
  start(): void {
    this.#timer ??= this.#startTimer(this.#options.timeoutMs);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #startTimer(delayMs: number): NodeJS.Timeout {
    return setTimeout(() => this.#replaceIfOverdue(), delayMs).unref();
  }

  #replaceIfOverdue(): void {
    this.#timer = undefined;
    this.#giveUpExpired();
    const [oldest] = this.#minimums;
    if (oldest === undefined) return;
    const { timeoutMs, watchReplaced, log } = this.#options;
    const leftMs = timeoutMs - (performance.now() - oldest.sinceMs);
    this.#timer = this.#startTimer(leftMs > 0 ? leftMs : timeoutMs);
    if (leftMs > 0) return;
    const wasReplaced = this.#replacedFor === oldest;
    if (!this.#replace(oldest, wasReplaced)) return;
    watchReplaced(resourceName(this.#informer.kind));
    if (wasReplaced) return;
    this.#replacedFor = oldest;
    const details = this.#detailsOf(oldest);
    log.warn(details, 'the watch has not delivered our own write: replacing the watch');
  }

  /** Returns whether the watch was replaced. */
  #replace(oldest: Minimum, relist: boolean): boolean {
    // Another controller may have replaced the watch just now, or it was broken: leave a new watch enough time.
    const openForMs = this.#options.timeoutMs / 2;
    const replacement = this.#informer.replaceWatch(this.#namespace, { relist, openForMs });
    if (replacement !== 'tooYoung') return replacement === 'replaced';
    // A watch is too young only once. If the next one is, too, watches end so soon that none is ever old enough.
    const isTooYoungAgain = this.#tooYoungFor === oldest;
    this.#tooYoungFor = oldest;
    return (
      isTooYoungAgain && this.#informer.replaceWatch(this.#namespace, { relist: true, openForMs: 0 }) === 'replaced'
    );
  }

  #giveUpExpired(): void {
    const { timeoutMs, log } = this.#options;
    const limitMs = timeoutMs * maxTimeouts;
    if (this.#informer.unavailableForMs(this.#namespace) < limitMs) return;
    const expired = [...this.#minimums].filter(({ sinceMs }) => performance.now() - sinceMs >= limitMs);
    const [oldest] = expired;
    if (oldest === undefined) return;
    const details = this.#detailsOf(oldest);
    log.warn(
      details,
      'the server forbids the watch that delivers our own write, or does not serve the kind: reconciling from a stale cache',
    );
    expired.forEach(this.#giveUp);
  }

  /** `object` is the reconciled object, as in every line; `resource` and `written` are what it wrote. */
  #detailsOf({ key, writtenKey: written, version, sinceMs }: Minimum): Record<string, unknown> {
    const ageMs = Math.round(performance.now() - sinceMs);
    return { object: key, resource: resourceName(this.#informer.kind), written, version, ageMs };
  }
}
