import { type Client, findCondition, type Kind, type KubeObject } from '@echoperator/runtime';
import { Job } from '@echoperator/runtime/kinds';
import { Echo } from '../src/kinds/echo/kind.ts';
import { namespace } from './api-server.ts';

/** What a stopwatch waits for. */
export interface Awaited {
  job(job: Job): boolean;
  echo(echo: Echo): boolean;
}

/**
 * Measures how long Echos wait: from the response to an Echo's creation, or from an earlier time, until a watch of Jobs
 * has delivered its Job and a watch of Echos its status.
 */
export class Stopwatch {
  readonly #created = new Map<string, number>();
  readonly #jobSeen = new Map<string, number>();
  readonly #statusSeen = new Map<string, number>();
  readonly #abort = new AbortController();
  readonly #watches: Promise<unknown>;
  #served = 0;
  #enough: { readonly count: number; readonly resolve: () => void } | undefined;

  private constructor(
    client: Client,
    resourceVersions: { readonly echos: string; readonly jobs: string },
    awaited: Awaited,
  ) {
    this.#watches = Promise.all([
      this.#watch(client, Echo, resourceVersions.echos, (echo) => {
        if (awaited.echo(echo)) this.#see(this.#statusSeen, this.#jobSeen, echo.metadata.name);
      }),
      this.#watch(client, Job, resourceVersions.jobs, (job) => {
        if (awaited.job(job)) this.#see(this.#jobSeen, this.#statusSeen, job.metadata.name);
      }),
    ]);
    // `served` awaits the result.
    this.#watches.catch(() => {});
  }

  /** @param awaited Default: any Job, and a status of the current generation */
  static async start(client: Client, awaited: Awaited = { job: () => true, echo: hasStatus }): Promise<Stopwatch> {
    const echos = await client.list(Echo, { namespace, limit: 1 });
    const jobs = await client.list(Job, { namespace, limit: 1 });
    return new Stopwatch(
      client,
      {
        echos: echos.metadata.resourceVersion,
        jobs: jobs.metadata.resourceVersion,
      },
      awaited,
    );
  }

  /** Call this when an Echo was created. @param sinceMs when its wait began, by `performance.now()` */
  created(name: string, sinceMs = performance.now()): void {
    this.#created.set(name, sinceMs);
  }

  /** The number of created Echos. */
  get createdCount(): number {
    return this.#created.size;
  }

  /** The number of Echos with a Job and a status. */
  get servedCount(): number {
    return this.#served;
  }

  /** Waits until `count` Echos in all have a Job and a status. */
  async served(count: number, signal: AbortSignal): Promise<void> {
    const enough = new Promise<void>((resolve) => {
      this.#enough = { count, resolve };
      if (this.#served >= count) resolve();
    });
    const failed = this.#watches.then(() => {
      throw new Error('the watches of the bench were stopped');
    });
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      if (signal.aborted) reject(signal.reason);
    });
    await Promise.race([enough, failed, aborted]);
  }

  /**
   * Returns the wait of each Echo with a name prefix, in milliseconds.
   *
   * @param untilMs how long one that was not served has waited at least, by `performance.now()`. Default: such an Echo
   *   is an error
   * @throws Error if one was not served
   */
  waits(prefix: string, untilMs = Number.NaN): readonly number[] {
    const waits: number[] = [];
    for (const [name, created] of this.#created) {
      if (!name.startsWith(prefix)) continue;
      const seen = Math.max(this.#jobSeen.get(name) ?? untilMs, this.#statusSeen.get(name) ?? untilMs);
      if (Number.isNaN(seen)) throw new Error(`Echo ${name} was never served`);
      // An operator may be done before the bench has read the response to the creation.
      waits.push(Math.max(0, seen - created));
    }
    return waits;
  }

  /**
   * Returns for each Echo with a name prefix how long its status came after its Job, in milliseconds.
   *
   * @throws Error if one was not served
   */
  statusLags(prefix: string): readonly number[] {
    return [...this.#created.keys()].flatMap((name) => {
      if (!name.startsWith(prefix)) return [];
      const [job, status] = [this.#jobSeen.get(name), this.#statusSeen.get(name)];
      if (job === undefined || status === undefined) throw new Error(`Echo ${name} was never served`);
      // The watches may deliver the two in either order.
      return [Math.max(0, status - job)];
    });
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#watches.catch(() => {});
  }

  #see(seen: Map<string, number>, other: ReadonlyMap<string, number>, name: string): void {
    if (seen.has(name)) return;
    seen.set(name, performance.now());
    if (!other.has(name)) return;
    this.#served++;
    if (this.#enough !== undefined && this.#served >= this.#enough.count) this.#enough.resolve();
  }

  async #watch<T extends KubeObject>(
    client: Client,
    kind: Kind<T>,
    resourceVersion: string,
    see: (object: T) => void,
  ): Promise<void> {
    let last = resourceVersion;
    const { signal } = this.#abort;
    // The server ends the watch of a client that falls behind. Resume it.
    while (!signal.aborted) {
      for await (const event of client.watch(kind, {
        namespace,
        resourceVersion: last,
        timeoutSeconds: 3600,
        signal,
      })) {
        last = event.object.metadata.resourceVersion;
        if (event.type === 'ADDED' || event.type === 'MODIFIED') see(event.object);
      }
    }
  }
}

const hasStatus = ({ metadata, status }: Echo): boolean =>
  status?.phase !== undefined &&
  findCondition(status.conditions, 'Ready')?.observedGeneration === metadata.generation &&
  status.observedGeneration === metadata.generation;
