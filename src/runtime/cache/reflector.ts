import { setTimeout as delay } from 'node:timers/promises';
import {
  ApiError,
  type Client,
  isExpired,
  type List,
  NoResponseError,
  type Selection,
  type WatchEvent,
  WatchOverdueError,
} from '../client/index.ts';
import { type Kind, type KubeObject, resourceName } from '../kind/index.ts';
import type { Logger } from '../observability/index.ts';
import { Backoff } from './backoff.ts';
import { InitialEvents } from './initial-events.ts';
import { LinkedController } from './linked-controller.ts';
import { compareResourceVersions } from './resource-version.ts';

/** Where a reflector puts what it reads. None of these may throw. */
export interface ReflectorTarget<T extends KubeObject> {
  /** Called once with each object that comes, before anything keeps it; what it returns stands for the object. */
  prepare(object: T): T;
  /**
   * A whole, consistent list as of `resourceVersion`, which after the server was restored from a backup is an older one.
   *
   * @param startedAtMs when it was asked for, by `performance.now`: it shows all that was written before.
   */
  replace(objects: readonly T[], resourceVersion: string, startedAtMs: number): void;
  /** Changes, in order; a bookmark says only how far the server has come. */
  apply(events: readonly WatchEvent<T>[]): void;
  /** The server does not serve the kind, or does not let it be listed or watched. It is asked again, after a pause. */
  refused?(error: ApiError, verb: 'list' | 'watch'): void;
  /** A request was accepted, or failed for another reason. A watch is accepted before its first event. */
  notRefused?(): void;
}

/** How a reflector goes about its work. */
export interface ReflectorOptions {
  /**
   * How it lists. `streamed`: as the first events of the watch (KEP-3157), in pages from then on where the server refuses,
   * and in pages for once where streams break off. `paged`: in pages of 250, then a watch; it costs the server more than twice the CPU time. Default `streamed`.
   */
  readonly listing?: 'paged' | 'streamed';
  /**
   * The server is asked to end each watch after so many seconds, and 15 s later the watch is resumed without its word: a
   * connection may die in silence. Default: 300 to 600, at random.
   */
  readonly watchTimeoutSeconds?: number;
  /** The pause after a failure, which doubles with each further one. Default: from 800 ms to 30,000. */
  readonly backoff?: { readonly initialMs: number; readonly maxMs: number };
}

/** Which watch {@link Reflector.replaceWatch} replaces, and by what. */
export interface ReplaceWatchOptions {
  /** Only one that was opened longer ago than this, in milliseconds. */
  readonly openForMs: number;
  /** Whether the next watch begins with a new list; else it resumes from the last resourceVersion. */
  readonly relist: boolean;
}

/** Somebody has waited too long for an event of this watch. */
class WatchReplacedError extends Error {
  override readonly name = 'WatchReplacedError';
}

/** Smaller pages leave less garbage at once (20,000 objects: a peak of 125 MB, not 143), and cost no more CPU. */
const pageSize = 250;

/** After so many streamed lists in a row that broke off: a proxy may cut what takes long, and a page takes less. */
const maxBrokenStreams = 2;

/** A watch that lived so long was no failure to connect, and a list so long ago not what expired: no pause is due. */
const briefMs = 1000;

/** The server ends a watch after 5 to 10 minutes, at random, so that watches don't all end at once (as client-go). */
const randomTimeoutSeconds = (): number => Math.round(300 + 300 * Math.random());

/**
 * Keeps a target equal to the API server's objects of a kind: a list, then a watch that is resumed from the last
 * resourceVersion seen, for ever. Errors are waited out with a growing pause; only a resourceVersion that the server no
 * longer has, or does not have yet, causes a new list, during which the target keeps what it holds.
 *
 * The latter is a server whose etcd was restored from a backup: a watch from its future looks healthy and stays silent.
 * So after a failed connection, and after a watch that ended before its time, the server is asked for its present version.
 * What that cannot show: a server that has written beyond our version by the time it is asked.
 */
export class Reflector<T extends KubeObject> {
  readonly #client: Pick<Client, 'list' | 'watchBatches'>;
  readonly #kind: Kind<T>;
  readonly #selection: Selection;
  readonly #target: ReflectorTarget<T>;
  readonly #log: Logger;
  readonly #watchTimeoutSeconds: number | undefined;
  readonly #backoff: Backoff;
  #listing: 'paged' | 'streamed';
  /** Undefined: the next step is a list. */
  #resourceVersion: string | undefined;
  /** The connection has failed or was ended: the server that answers next may be older than what we have seen. */
  #inDoubt = false;
  #listedAtMs = 0;
  /** What it asks for now. */
  #verb: 'list' | 'watch' = 'list';
  /** Streamed lists since the last whole one of which only a part came. */
  #brokenStreams = 0;
  /** The watch that is open, once it has a list behind it. */
  #open: { readonly sinceMs: number; readonly controller: LinkedController } | undefined;

  constructor(
    options: {
      readonly client: Pick<Client, 'list' | 'watchBatches'>;
      readonly kind: Kind<T>;
      readonly selection: Selection;
      readonly target: ReflectorTarget<T>;
      readonly log: Logger;
    } & ReflectorOptions,
  ) {
    this.#client = options.client;
    this.#kind = options.kind;
    this.#selection = options.selection;
    this.#target = options.target;
    this.#listing = options.listing ?? 'streamed';
    this.#backoff = new Backoff(options.backoff ?? { initialMs: 800, maxMs: 30_000 });
    this.#watchTimeoutSeconds = options.watchTimeoutSeconds;
    this.#log = options.log.child({ resource: resourceName(options.kind) });
  }

  /** Runs until the signal is aborted; never throws. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        this.#verb = 'list';
        if (this.#inDoubt) await this.#check(signal);
        if (this.#resourceVersion === undefined && this.#listsInPages()) await this.#list(signal);
        this.#verb = 'watch';
        await this.#watch(this.#resourceVersion, signal);
      } catch (error) {
        if (signal.aborted) return;
        await this.#recover(error, signal);
      }
    }
  }

  /**
   * Ends the open watch and begins another one at once; while it pauses, the next one after the pause.
   *
   * @returns false while it lists, and if the open watch is too young.
   */
  replaceWatch({ relist, openForMs }: ReplaceWatchOptions): boolean {
    if (this.#resourceVersion === undefined) return false;
    if (this.#open !== undefined && performance.now() - this.#open.sinceMs < openForMs) return false;
    if (relist) this.#resourceVersion = undefined;
    this.#open?.controller.abort(new WatchReplacedError('the watch is replaced'));
    return true;
  }

  #listsInPages(): boolean {
    return this.#listing === 'paged' || this.#brokenStreams >= maxBrokenStreams;
  }

  async #recover(error: unknown, signal: AbortSignal): Promise<void> {
    if (isAbsence(error)) this.#target.refused?.(error, this.#verb);
    else this.#target.notRefused?.();
    if (error instanceof WatchReplacedError) return;
    if (error instanceof WatchOverdueError) {
      // Of a connection that died, or of a kind that nobody writes: the server has no bookmark for such a one.
      this.#log.debug(
        { resourceVersion: this.#resourceVersion },
        'the server has not ended a watch in time: resuming it',
      );
      return;
    }
    if (this.#resourceVersion === undefined && this.#listing === 'streamed' && isRefusal(error)) {
      this.#log.debug({ err: error }, 'the server streams no lists: listing in pages');
      this.#listing = 'paged';
      return;
    }
    // Of a list there is no version that could expire: whoever answers it so is waited out as any other.
    if (isExpired(error) && this.#resourceVersion !== undefined) {
      this.#log.info({ resourceVersion: this.#resourceVersion }, 'the resource version has expired: listing anew');
      this.#resourceVersion = undefined;
      // The server answers: what was waited for is over.
      this.#backoff.reset();
      if (performance.now() - this.#listedAtMs > briefMs) return;
    }
    this.#inDoubt ||= isFailedConnection(error);
    const waitMs = Math.max(Math.round(this.#backoff.next()), retryAfterMs(error));
    const details = { err: error, waitMs };
    if (isInitializing(error)) this.#log.debug(details, 'the server prepares the kind: trying again');
    else this.#log.warn(details, 'list or watch failed: trying again');
    await delay(waitMs, undefined, { signal }).catch(() => {});
  }

  /** A list without a resourceVersion is answered by a server that has made sure to be up to date with etcd. */
  async #check(signal: AbortSignal): Promise<void> {
    if (this.#resourceVersion !== undefined) {
      const { metadata } = await this.#client.list(this.#kind, { ...this.#selection, limit: 1, signal });
      // Undefined by now if somebody has asked for a list.
      if (
        this.#resourceVersion !== undefined &&
        compareResourceVersions(metadata.resourceVersion, this.#resourceVersion) < 0
      ) {
        this.#log.warn(
          { resourceVersion: this.#resourceVersion, serverResourceVersion: metadata.resourceVersion },
          'the server is older than what was seen of it (restored from a backup?): listing anew',
        );
        this.#resourceVersion = undefined;
      }
    }
    this.#inDoubt = false;
  }

  async #list(signal: AbortSignal): Promise<void> {
    const startedAtMs = performance.now();
    const pages = (await this.#pages(pageSize, signal)) ?? (await this.#pages(pageSize, signal));
    // Where pages expire faster than they are read, all comes in one.
    const { objects, resourceVersion } = pages ?? (await this.#allInOne(signal));
    this.#listed(objects, resourceVersion, startedAtMs);
  }

  /** Undefined if the pages expired before the last one was read. */
  async #pages(limit: number, signal: AbortSignal): Promise<Listed<T> | undefined> {
    const objects: T[] = [];
    let page: List<T> = await this.#client.list(this.#kind, { ...this.#selection, limit, signal });
    this.#target.notRefused?.();
    for (;;) {
      const { continue: token, resourceVersion } = page.metadata;
      if (!token) {
        this.#keep(page.items, objects);
        return { objects, resourceVersion };
      }
      // The server makes the next page ready while this one is worked on.
      const next = this.#client.list(this.#kind, { ...this.#selection, limit, continue: token, signal });
      next.catch(() => {});
      this.#keep(page.items, objects);
      try {
        page = await next;
      } catch (error) {
        if (!isExpired(error)) throw error;
        this.#log.info({ resourceVersion }, 'the pages of the list have expired: beginning anew');
        return undefined;
      }
    }
  }

  async #allInOne(signal: AbortSignal): Promise<Listed<T>> {
    const { items, metadata } = await this.#client.list(this.#kind, { ...this.#selection, signal });
    const objects: T[] = [];
    this.#keep(items, objects);
    return { objects, resourceVersion: metadata.resourceVersion };
  }

  #keep(items: readonly T[], objects: T[]): void {
    for (const item of items) objects.push(this.#target.prepare(item));
  }

  #listed(objects: readonly T[], resourceVersion: string, startedAtMs: number): void {
    this.#target.replace(objects, resourceVersion, startedAtMs);
    this.#resourceVersion = resourceVersion;
    this.#listedAtMs = performance.now();
    this.#brokenStreams = 0;
    this.#backoff.reset();
    this.#log.debug({ objects: objects.length, resourceVersion }, 'listed');
  }

  /** Watches from a version on, or from a streamed list if there is none. */
  async #watch(from: string | undefined, signal: AbortSignal): Promise<void> {
    const startedAtMs = performance.now();
    const controller = new LinkedController(signal);
    this.#open = { sinceMs: startedAtMs, controller };
    const timeoutSeconds = this.#watchTimeoutSeconds ?? randomTimeoutSeconds();
    let initial = from === undefined ? new InitialEvents<T>() : undefined;
    let opened = true;
    try {
      const batches = this.#client.watchBatches(this.#kind, {
        ...this.#selection,
        ...(from === undefined
          ? { sendInitialEvents: true, resourceVersionMatch: 'NotOlderThan' }
          : { resourceVersion: from }),
        timeoutSeconds,
        signal: controller.signal,
      });
      for await (const batch of batches) {
        this.#target.notRefused?.();
        const events = this.#prepared(batch);
        // Its bytes may still come after it was given up: the next one begins where this one has been applied to.
        if (controller.signal.aborted) throw controller.signal.reason;
        const live = initial === undefined ? events : this.#initially(initial, events, startedAtMs);
        if (live === undefined) continue;
        initial = undefined;
        this.#apply(live);
      }
    } catch (error) {
      // A server in trouble may take its time to refuse.
      opened = !(error instanceof ApiError || error instanceof NoResponseError);
      throw error;
    } finally {
      this.#open = undefined;
      controller.unlink();
      if (opened && performance.now() - startedAtMs >= briefMs) this.#backoff.reset();
      if (opened && initial !== undefined) this.#brokenStreams += 1;
    }
    if (initial !== undefined) throw new Error('the server ended a streamed list before its last object');
    const livedMs = performance.now() - startedAtMs;
    // Before its time a server ends the watches when it stops, or has lost its etcd.
    this.#inDoubt ||= livedMs < timeoutSeconds * 1000 - briefMs;
    // A server that closes each watch at once would otherwise be asked in a tight loop.
    if (from === this.#resourceVersion && livedMs < briefMs) {
      await delay(this.#backoff.next(), undefined, { signal }).catch(() => {});
    }
  }

  #prepared(batch: readonly WatchEvent<T>[]): readonly WatchEvent<T>[] {
    return batch.map((event) =>
      event.type === 'BOOKMARK' ? event : { type: event.type, object: this.#target.prepare(event.object) },
    );
  }

  /** The events that come after the streamed list; undefined while it has not come to its end. */
  #initially(
    initial: InitialEvents<T>,
    events: readonly WatchEvent<T>[],
    startedAtMs: number,
  ): readonly WatchEvent<T>[] | undefined {
    const last = events.findIndex((event) => initial.add(event));
    const end = events[last];
    if (end === undefined) return undefined;
    this.#listed(initial.objects, end.object.metadata.resourceVersion, startedAtMs);
    return events.slice(last + 1);
  }

  #apply(events: readonly WatchEvent<T>[]): void {
    const last = events.at(-1);
    if (last === undefined) return;
    this.#target.apply(events);
    this.#resourceVersion = last.object.metadata.resourceVersion;
    this.#backoff.reset();
  }
}

interface Listed<T extends KubeObject> {
  readonly objects: readonly T[];
  readonly resourceVersion: string;
}

/** The server, or one that is older, does not know this kind of watch. */
const isRefusal = (error: unknown): boolean => error instanceof ApiError && (error.code === 400 || error.code === 422);

/** There is no such kind, or not for us. */
const isAbsence = (error: unknown): error is ApiError =>
  error instanceof ApiError && (error.code === 404 || error.code === 403);

/** The server has just begun to serve the kind, or has lost its own watch of it, and is about to be ready. */
const isInitializing = (error: unknown): boolean =>
  error instanceof ApiError && error.code === 429 && error.message.includes('storage is (re)initializing');

/** Nobody answered, or a proxy did in the server's place. */
const isFailedConnection = (error: unknown): boolean =>
  !(error instanceof ApiError) || (error.code >= 502 && error.code <= 504);

/** What the server asks for; no more than a minute, whatever it asks for. */
function retryAfterMs(error: unknown): number {
  const seconds = error instanceof ApiError ? (error.retryAfterSeconds ?? 0) : 0;
  return Math.min(seconds, 60) * 1000;
}
