import { setTimeout as delay } from 'node:timers/promises';
import { type Client, isExpired, type Selection, type WatchEvent } from '../client/index.ts';
import { type Kind, type KubeObject, resourceName } from '../kind/index.ts';
import type { Logger } from '../observability/index.ts';
import { Backoff } from './backoff.ts';

/** Where a reflector puts what it reads. */
export interface ReflectorTarget<T extends KubeObject> {
  /** A whole, consistent list as of `resourceVersion`. */
  replace(objects: readonly T[], resourceVersion: string): void;
  /** One change; a bookmark says only how far the server has come. */
  event(event: WatchEvent<T>): void;
}

const pageSize = 500;

/** The server ends a watch after 5 to 10 minutes, at random, so that watches don't all end at once (as client-go). */
const watchTimeoutSeconds = (): number => Math.round(300 + 300 * Math.random());

/**
 * Keeps a target equal to the API server's objects of a kind: a list in pages, then a watch that is resumed from the
 * last resourceVersion seen, for ever. Errors are waited out with a growing pause; only a resourceVersion that the
 * server no longer has causes a new list, during which the target keeps what it holds.
 */
export class Reflector<T extends KubeObject> {
  readonly #client: Client;
  readonly #kind: Kind<T>;
  readonly #selection: Selection;
  readonly #target: ReflectorTarget<T>;
  readonly #log: Logger;
  readonly #backoff = new Backoff({ initialMs: 800, maxMs: 30_000 });
  /** Undefined: the next step is a list. */
  #resourceVersion: string | undefined;

  constructor(options: {
    readonly client: Client;
    readonly kind: Kind<T>;
    readonly selection: Selection;
    readonly target: ReflectorTarget<T>;
    readonly log: Logger;
  }) {
    this.#client = options.client;
    this.#kind = options.kind;
    this.#selection = options.selection;
    this.#target = options.target;
    this.#log = options.log.child({ resource: resourceName(options.kind) });
  }

  /** Runs until the signal is aborted; never throws. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        if (this.#resourceVersion === undefined) this.#resourceVersion = await this.#list(signal);
        await this.#watch(this.#resourceVersion, signal);
      } catch (error) {
        if (signal.aborted) return;
        await this.#recover(error, signal);
      }
    }
  }

  async #recover(error: unknown, signal: AbortSignal): Promise<void> {
    if (isExpired(error)) {
      this.#log.info({ resourceVersion: this.#resourceVersion }, 'the resource version has expired: listing anew');
      this.#resourceVersion = undefined;
      // The server answers: what was waited for is over.
      this.#backoff.reset();
    }
    const waitMs = Math.round(this.#backoff.next());
    this.#log.warn({ err: error, waitMs }, 'list or watch failed: trying again');
    await delay(waitMs, undefined, { signal }).catch(() => {});
  }

  async #list(signal: AbortSignal): Promise<string> {
    const objects: T[] = [];
    let page = await this.#client.list(this.#kind, { ...this.#selection, limit: pageSize, signal });
    objects.push(...page.items);
    while (page.metadata.continue) {
      const { continue: token } = page.metadata;
      page = await this.#client.list(this.#kind, { ...this.#selection, limit: pageSize, continue: token, signal });
      objects.push(...page.items);
    }
    const { resourceVersion } = page.metadata;
    this.#target.replace(objects, resourceVersion);
    this.#log.debug({ objects: objects.length, resourceVersion }, 'listed');
    return resourceVersion;
  }

  async #watch(from: string, signal: AbortSignal): Promise<void> {
    const events = this.#client.watch(this.#kind, {
      ...this.#selection,
      resourceVersion: from,
      timeoutSeconds: watchTimeoutSeconds(),
      signal,
    });
    const startedAtMs = performance.now();
    let received = 0;
    for await (const event of events) {
      this.#target.event(event);
      this.#resourceVersion = event.object.metadata.resourceVersion;
      received += 1;
      this.#backoff.reset();
    }
    // A server that closes each watch at once would otherwise be asked in a tight loop.
    if (received === 0 && performance.now() - startedAtMs < 1000) {
      await delay(this.#backoff.next(), undefined, { signal }).catch(() => {});
    }
  }
}
