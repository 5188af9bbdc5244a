import { ApiError, isExpired, isForbidden } from '../client/api-error.ts';
import { isFailedConnection, isInitializing, isNotServedOrForbidden, isUnsupported } from '../client/classify-error.ts';
import type { Client, ListOptions, Selection, WatchEvent } from '../client/client.ts';
import { WatchOverdueError } from '../client/http-client.ts';
import { listPages } from '../client/list-pages.ts';
import { type Kind, resourceName } from '../kind/kind.ts';
import type { KubeObject } from '../kind/object.ts';
import { Backoff } from '../shared/backoff.ts';
import { isDefect } from '../shared/is-defect.ts';
import type { Logger } from '../shared/logger.ts';
import { pause } from '../shared/pause.ts';
import { InitialEvents } from './initial-events.ts';
import { compareResourceVersions } from './resource-version.ts';

/**
 * What a reflector keeps equal to the API server's objects. An error of `prepare`, `replace` or `takeEvents` counts as
 * a failed request. The other functions must not throw.
 */
export interface ReflectorTarget<T extends KubeObject> {
  /**
   * Called once per received object, before anything keeps it. The reflector uses the returned object instead.
   *
   * @param origin `list` also for a list that is streamed as the start of a watch.
   */
  prepare(object: T, origin: 'list' | 'watch'): T;
  /**
   * Takes a complete, consistent list as of `resourceVersion`. The version is lower than the previous one if the server
   * was restored from a backup.
   *
   * @param startedAtMs when the list was requested, by `performance.now`. The list contains every write made before.
   */
  replace(objects: readonly T[], resourceVersion: string, startedAtMs: number): void;
  /** Takes changes in order. A bookmark only advances the resourceVersion. */
  takeEvents(events: readonly WatchEvent<T>[]): void;
  /** The server does not serve the kind (404) or forbids the request (403). The reflector retries after a pause. */
  onUnavailable?(error: ApiError, verb: 'list' | 'watch'): void;
  /** The server accepted a request, or it failed for another reason. A watch is accepted before its first event. */
  onAvailable?(): void;
  /**
   * A list or watch failed on a programming error. The target is stale until `replace` or `takeEvents` has succeeded;
   * an accepted request is no proof, because the retry may fail on the same event.
   */
  onDefect?(error: unknown): void;
}

/** Options of a {@link Reflector}. */
export interface ReflectorOptions {
  /**
   * How the reflector lists. `streamed`: as the first events of the watch (KEP-3157). It falls back to pages for good
   * if the server refuses, and for one list after two streams in a row broke off. `paged`: in pages of 250 objects,
   * which costs the server more than twice the CPU time. Default `streamed`.
   */
  readonly listing?: 'paged' | 'streamed';
  /**
   * After how many seconds the server should end each watch. 15 s later the reflector resumes the watch itself, because
   * a connection can die silently. Default: 300 to 600, at random.
   */
  readonly watchTimeoutSeconds?: number;
  /** The pause after a failure; it doubles with each further failure. Default: 800 ms to 30,000 ms. */
  readonly backoff?: { readonly initialMs: number; readonly maxMs: number };
}

/** Options of {@link Reflector.replaceWatch}. */
export interface ReplaceWatchOptions {
  /** Replace the watch only if it has been open for at least this long, in milliseconds. */
  readonly openForMs: number;
  /** Whether to list before the next watch. If false, the next watch resumes from the last resourceVersion. */
  readonly relist: boolean;
}

/** What {@link Reflector.replaceWatch} found. */
export type WatchReplacement = 'replaced' | 'noWatch' | 'tooYoung';

/** What a reflector has done so far, for metrics. */
export interface ReflectorProgress {
  /** Complete lists. Each after the first is a relist. */
  readonly lists: number;
  readonly failedLists: number;
  /** Includes lists that are streamed as the start of a watch. */
  readonly failedWatches: number;
  /**
   * When the server last showed that the target is current, by `performance.now`: a list, an event, a bookmark or an
   * accepted watch. Before the first one: when the reflector started. Undefined while it does not run.
   */
  readonly confirmedAtMs: number | undefined;
  /**
   * When the first of the failures after the last confirmation occurred, by `performance.now`. Undefined if there are
   * none.
   */
  readonly failingSinceMs: number | undefined;
}

/** {@link Reflector.replaceWatch} ended the watch. */
class WatchReplacedError extends Error {
  override readonly name = 'WatchReplacedError';
}

/** What the reflector is doing, or will request next. A pause after a failure does not change the state. */
type State =
  /** The target has no list to watch from: list everything. */
  | { readonly type: 'list' }
  /** The connection failed or ended early: ask whether the server is older than `resourceVersion`. */
  | { readonly type: 'verify'; readonly resourceVersion: string }
  /** Open a watch from `resourceVersion`. */
  | { readonly type: 'resume'; readonly resourceVersion: string }
  /** A watch is being opened, or is open, and the target holds everything up to `resourceVersion`. */
  | {
      readonly type: 'watch';
      readonly resourceVersion: string;
      readonly openedAtMs: number;
      /** Aborted to replace the watch. */
      readonly replaced: AbortController;
    };

/**
 * After this many broken streams in a row the next list is paged: a proxy may cut long responses, and pages are short.
 */
const maxBrokenStreams = 2;

/**
 * The reflector does not back off after a watch that was open for at least this long, because the connection worked. It
 * does not back off after a 410 either if the last list is at least this old.
 */
const minHealthyMs = 1000;

/**
 * If a server is still preparing a kind after this time, it probably cannot read one of the objects. Then retrying does
 * not help.
 */
const maxInitializingMs = 30_000;

/** A watch that ends at most this much before its timeout counts as having ended at its timeout. */
const earlyEndToleranceMs = 1000;

/** 5 to 10 minutes, at random, so that watches do not all end at once (as client-go). */
const randomTimeoutSeconds = (): number => Math.round(300 + 300 * Math.random());

/**
 * Keeps a target equal to the API server's objects of a kind: lists, then watches, and resumes the watch from the last
 * resourceVersion forever. After an error it pauses, with backoff. It relists after a 410, if etcd was restored, or if
 * `replaceWatch` requests it. During a relist the target keeps its objects.
 *
 * A watch from a version that is ahead of the server looks healthy and stays silent. So after a failed connection, and
 * after a watch that ended early, the reflector asks the server for its current version. It cannot detect a restored
 * server that has already written beyond our version, or one that forbids listing.
 */
export class Reflector<T extends KubeObject> {
  readonly #client: Pick<Client, 'list' | 'watchBatches'>;
  readonly #kind: Kind<T>;
  readonly #selection: Selection;
  readonly #dropsManagedFields: (verb: 'list' | 'watch') => boolean;
  readonly #target: ReflectorTarget<T>;
  readonly #log: Logger;
  readonly #watchTimeoutSeconds: number | undefined;
  readonly #backoff: Backoff;
  #listing: 'paged' | 'streamed';
  #state: State = { type: 'list' };
  #listedAtMs = 0;
  /** How many streamed lists broke off since the last complete list. */
  #brokenStreams = 0;
  #lists = 0;
  readonly #failures = { list: 0, watch: 0 };
  #confirmedAtMs: number | undefined;
  #failingSinceMs: number | undefined;
  /**
   * Whether the last list or event failed on a programming error. Then an accepted watch does not prove that the target
   * is current.
   */
  #isDefective = false;

  constructor(
    options: {
      readonly client: Pick<Client, 'list' | 'watchBatches'>;
      readonly kind: Kind<T>;
      readonly selection: Selection;
      /** Called before each request: whether the server may omit `metadata.managedFields`. Default: it may not. */
      readonly dropsManagedFields?: (verb: 'list' | 'watch') => boolean;
      readonly target: ReflectorTarget<T>;
      readonly log: Logger;
    } & ReflectorOptions,
  ) {
    this.#client = options.client;
    this.#kind = options.kind;
    this.#selection = options.selection;
    this.#dropsManagedFields = options.dropsManagedFields ?? (() => false);
    this.#target = options.target;
    this.#listing = options.listing ?? 'streamed';
    this.#backoff = new Backoff(options.backoff ?? { initialMs: 800, maxMs: 30_000 });
    this.#watchTimeoutSeconds = options.watchTimeoutSeconds;
    this.#log = options.log.child({ resource: resourceName(options.kind) });
  }

  get progress(): ReflectorProgress {
    const { list, watch } = this.#failures;
    const [confirmedAtMs, failingSinceMs] = [this.#confirmedAtMs, this.#failingSinceMs];
    return { lists: this.#lists, failedLists: list, failedWatches: watch, confirmedAtMs, failingSinceMs };
  }

  /** Runs until the signal is aborted; never throws. A second run continues where the first one stopped. */
  async run(signal: AbortSignal): Promise<void> {
    this.#confirm();
    await this.#runUntil(signal);
    this.#confirmedAtMs = undefined;
  }

  #confirm(): void {
    this.#confirmedAtMs = performance.now();
    this.#failingSinceMs = undefined;
  }

  async #runUntil(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      // `#step` changes the state. An error must be reported with the verb of the failed step.
      const verb = this.#nextVerb();
      try {
        await this.#step(signal);
      } catch (error) {
        if (signal.aborted) return;
        await this.#recover(error, verb, signal);
      }
    }
  }

  /**
   * Ends the watch and opens another one immediately.
   *
   * @returns `noWatch` or `tooYoung` (requested less than `openForMs` ago) if it did nothing.
   */
  replaceWatch({ relist, openForMs }: ReplaceWatchOptions): WatchReplacement {
    const state = this.#state;
    // Without an open watch, the next step delivers what is missing: it lists, or it resumes from the last
    // resourceVersion.
    if (state.type !== 'watch') return 'noWatch';
    if (performance.now() - state.openedAtMs < openForMs) return 'tooYoung';
    if (relist) this.#state = { type: 'list' };
    state.replaced.abort(new WatchReplacedError('the watch is replaced'));
    return 'replaced';
  }

  async #step(signal: AbortSignal): Promise<void> {
    const state = this.#state;
    if (state.type === 'verify') await this.#verify(state, signal);
    else if (state.type !== 'list') await this.#watch(state.resourceVersion, signal);
    else if (this.#listsInPages()) await this.#list(signal);
    else await this.#watch(undefined, signal);
  }

  #nextVerb(): 'list' | 'watch' {
    const { type } = this.#state;
    return type === 'verify' || (type === 'list' && this.#listsInPages()) ? 'list' : 'watch';
  }

  #listsInPages(): boolean {
    return this.#listing === 'paged' || this.#brokenStreams >= maxBrokenStreams;
  }

  async #recover(error: unknown, verb: 'list' | 'watch', signal: AbortSignal): Promise<void> {
    if (error instanceof WatchReplacedError) return;
    if (isNotServedOrForbidden(error)) this.#target.onUnavailable?.(error, verb);
    else this.#target.onAvailable?.();
    const state = this.#state;
    const resourceVersion = state.type === 'list' ? undefined : state.resourceVersion;
    if (error instanceof WatchOverdueError) {
      // The server ends a watch at its timeout. If it did not, the connection is dead.
      this.#log.debug({ resourceVersion }, 'the server did not end the watch in time: resuming it');
      return;
    }
    if (state.type === 'list' && this.#listing === 'streamed' && isUnsupported(error)) {
      this.#log.debug({ err: error }, 'the server does not support streamed lists: listing in pages');
      this.#listing = 'paged';
      return;
    }
    // After a 410 to a list, the reflector pauses as after any other error: the next list may expire too.
    if (state.type !== 'list' && isExpired(error)) {
      this.#log.info({ resourceVersion }, 'the resourceVersion has expired: relisting');
      this.#state = { type: 'list' };
      // A 410 to a fresh list may repeat forever.
      if (performance.now() - this.#listedAtMs > minHealthyMs) {
        this.#backoff.reset();
        return;
      }
    } else if (state.type === 'verify' && isForbidden(error)) {
      // The permission to watch may remain, and a streamed list needs no other.
      this.#state = { type: 'resume', resourceVersion: state.resourceVersion };
    } else if (state.type === 'list' && isForbidden(error)) {
      // Paged lists need the permission to list. A stream needs only the permission to watch, so stream again.
      this.#brokenStreams = 0;
    } else if (state.type !== 'list' && isFailedConnection(error)) {
      // A programming error also leads here. That costs one needless check.
      this.#state = { type: 'verify', resourceVersion: state.resourceVersion };
    }
    if (isDefect(error)) {
      this.#isDefective = true;
      this.#target.onDefect?.(error);
    }
    this.#failures[verb] += 1;
    this.#failingSinceMs ??= performance.now();
    const waitMs = Math.max(Math.round(this.#backoff.next()), retryAfterMs(error));
    this.#logFailure(error, waitMs);
    await pause(waitMs, signal);
  }

  #logFailure(error: unknown, waitMs: number): void {
    const details = { err: error, waitMs };
    const failedForMs = performance.now() - (this.#failingSinceMs ?? performance.now());
    if (isInitializing(error) && failedForMs < maxInitializingMs)
      this.#log.debug(details, 'the server is preparing the kind: trying again');
    else if (isDefect(error))
      this.#log.error(details, 'list or watch failed on a programming error: the cache is stale');
    else if (error instanceof ApiError && error.code === 404)
      this.#log.warn(
        details,
        'the server does not serve the kind (is its CustomResourceDefinition installed?): trying again',
      );
    else this.#log.warn(details, 'list or watch failed: trying again');
  }

  /** Requests a list without a resourceVersion. The server responds only when it is up to date with etcd. */
  async #verify(state: State & { readonly type: 'verify' }, signal: AbortSignal): Promise<void> {
    const { resourceVersion } = state;
    const { metadata } = await this.#client.list(this.#kind, { ...this.#selection, limit: 1, signal });
    if (compareResourceVersions(metadata.resourceVersion, resourceVersion) >= 0) {
      this.#state = { type: 'resume', resourceVersion };
      return;
    }
    this.#log.warn(
      { resourceVersion, serverResourceVersion: metadata.resourceVersion },
      'the server is older than the cache (restored from a backup?): relisting',
    );
    this.#state = { type: 'list' };
  }

  async #list(signal: AbortSignal): Promise<void> {
    const startedAtMs = performance.now();
    const pages = (await this.#pages(signal)) ?? (await this.#pages(signal));
    // If pages expire faster than they can be read, read everything in one response.
    const { objects, resourceVersion } = pages ?? (await this.#unpaged(signal));
    this.#listed(objects, resourceVersion, startedAtMs);
    this.#state = { type: 'resume', resourceVersion };
  }

  /** Undefined if the pages expired before the last one was read. */
  async #pages(signal: AbortSignal): Promise<Listed<T> | undefined> {
    const objects: T[] = [];
    let resourceVersion: string | undefined;
    try {
      for await (const { items, metadata } of listPages(this.#client, this.#kind, this.#listOptions(signal))) {
        this.#target.onAvailable?.();
        resourceVersion = metadata.resourceVersion;
        this.#prepareInto(objects, items);
      }
    } catch (error) {
      if (resourceVersion === undefined || !isExpired(error)) throw error;
      this.#log.info({ resourceVersion }, 'the pages of the list have expired: listing from the start');
      return undefined;
    }
    return resourceVersion === undefined ? undefined : { objects, resourceVersion };
  }

  async #unpaged(signal: AbortSignal): Promise<Listed<T>> {
    const { items, metadata } = await this.#client.list(this.#kind, this.#listOptions(signal));
    const objects: T[] = [];
    this.#prepareInto(objects, items);
    return { objects, resourceVersion: metadata.resourceVersion };
  }

  #listOptions(signal: AbortSignal): Selection & Pick<ListOptions, 'dropManagedFields' | 'signal'> {
    return { ...this.#selection, ...(this.#dropsManagedFields('list') && { dropManagedFields: true }), signal };
  }

  #prepareInto(objects: T[], items: readonly T[]): void {
    for (const item of items) objects.push(this.#target.prepare(item, 'list'));
  }

  #listed(objects: readonly T[], resourceVersion: string, startedAtMs: number): void {
    this.#target.replace(objects, resourceVersion, startedAtMs);
    this.#listedAtMs = performance.now();
    this.#confirm();
    this.#lists += 1;
    this.#isDefective = false;
    this.#brokenStreams = 0;
    this.#log.debug({ objects: objects.length, resourceVersion }, 'listed');
  }

  /** Watches from a resourceVersion; without one, the watch begins with a streamed list. */
  async #watch(from: string | undefined, signal: AbortSignal): Promise<void> {
    const openedAtMs = performance.now();
    const replaced = new AbortController();
    const ended = AbortSignal.any([signal, replaced.signal]);
    const advanceTo = (resourceVersion: string): void => {
      this.#state = { type: 'watch', resourceVersion, openedAtMs, replaced };
    };
    if (from !== undefined) advanceTo(from);
    const timeoutSeconds = this.#watchTimeoutSeconds ?? randomTimeoutSeconds();
    let initial = from === undefined ? new InitialEvents<T>() : undefined;
    let wasOpened = false;
    try {
      const batches = this.#client.watchBatches(this.#kind, {
        ...this.#selection,
        ...(from === undefined ? { sendInitialEvents: true } : { resourceVersion: from }),
        ...(this.#dropsManagedFields('watch') && { dropManagedFields: true }),
        timeoutSeconds,
        signal: ended,
      });
      for await (const batch of batches) {
        // The first batch is empty: the server has accepted the request.
        wasOpened = true;
        // A streamed list is not visible in the target before it is complete.
        if (initial === undefined && !this.#isDefective) this.#confirm();
        this.#target.onAvailable?.();
        let events = this.#prepared(batch, initial === undefined ? 'watch' : 'list');
        // The client may deliver more events after an abort. Drop them: the next watch resumes from the last applied
        // event.
        ended.throwIfAborted();
        if (initial !== undefined) {
          const end = initial.takeUntilEnd(events);
          if (end === undefined) continue;
          this.#listed(initial.objects, end.resourceVersion, openedAtMs);
          advanceTo(end.resourceVersion);
          initial = undefined;
          events = end.laterEvents;
        }
        const last = events.at(-1);
        if (last === undefined) continue;
        this.#target.takeEvents(events);
        this.#isDefective = false;
        advanceTo(last.object.metadata.resourceVersion);
        this.#backoff.reset();
      }
    } finally {
      const state = this.#state;
      if (state.type === 'watch') this.#state = { type: 'resume', resourceVersion: state.resourceVersion };
      if (wasOpened && performance.now() - openedAtMs >= minHealthyMs) this.#backoff.reset();
      if (wasOpened && initial !== undefined) this.#brokenStreams += 1;
    }
    if (initial !== undefined) throw new Error('the server ended a streamed list before its last object');
    await this.#watchEnded(from, { livedMs: performance.now() - openedAtMs, timeoutSeconds }, signal);
  }

  async #watchEnded(
    from: string | undefined,
    { livedMs, timeoutSeconds }: { readonly livedMs: number; readonly timeoutSeconds: number },
    signal: AbortSignal,
  ): Promise<void> {
    const state = this.#state;
    if (state.type !== 'resume') return;
    const { resourceVersion } = state;
    // A server ends watches early when it stops or loses its etcd. The etcd may then be restored from a backup.
    if (livedMs < timeoutSeconds * 1000 - earlyEndToleranceMs) this.#state = { type: 'verify', resourceVersion };
    // Without this pause, a server that closes each watch immediately would cause a hot loop.
    if (from === resourceVersion && livedMs < minHealthyMs) {
      await pause(this.#backoff.next(), signal);
    }
  }

  #prepared(batch: readonly WatchEvent<T>[], origin: 'list' | 'watch'): readonly WatchEvent<T>[] {
    return batch.map((event) =>
      event.type === 'BOOKMARK' ? event : { type: event.type, object: this.#target.prepare(event.object, origin) },
    );
  }
}

interface Listed<T extends KubeObject> {
  readonly objects: readonly T[];
  readonly resourceVersion: string;
}

/** The server's `Retry-After`, in milliseconds; at most a minute. */
function retryAfterMs(error: unknown): number {
  const seconds = error instanceof ApiError ? (error.retryAfterSeconds ?? 0) : 0;
  return Math.min(seconds, 60) * 1000;
}
