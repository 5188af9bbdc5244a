import { setTimeout as delay } from 'node:timers/promises';
import { Echo } from '../../../src/api/index.ts';
import { isAlreadyExists } from '../../../src/runtime/client/index.ts';
import type { Client } from '../../../src/runtime/index.ts';
import { echoManifest } from '../../../testkit/echos.ts';

/** Where the Echos come, and how fast. */
export interface EchoStreamOptions {
  readonly client: Client;
  readonly namespace: string;
  readonly perSecond: number;
  /** Asked before each Echo: true puts it off. Default: never. */
  readonly isEnough?: () => Promise<boolean>;
}

/** So many may be under way; while the API server answers none of them, no more are sent. */
const maxUnderWay = 50;
const retryMs = 200;

/** Creates Echos at a steady pace until it is stopped. What the API server does not answer is sent until it does. */
export class EchoStream {
  readonly #options: EchoStreamOptions;
  readonly #stop = new AbortController();
  readonly #giveUp = new AbortController();
  readonly #names: string[] = [];
  readonly #underWay = new Set<Promise<void>>();
  readonly #running: Promise<void>;
  #slowestMs = 0;

  private constructor(options: EchoStreamOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  static start(options: EchoStreamOptions): EchoStream {
    return new EchoStream(options);
  }

  /** How many Echos the API server has taken. */
  get count(): number {
    return this.#names.length;
  }

  /** The longest time that the API server took over one of them, failed attempts included, in milliseconds. */
  get slowestMs(): number {
    return this.#slowestMs;
  }

  /** Sends no more, and returns the names of all that were taken once those under way are among them. */
  async stop(): Promise<readonly string[]> {
    this.#stop.abort();
    await this.#running;
    await Promise.all(this.#underWay);
    return this.#names;
  }

  /** Ends it at once, those under way too. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#giveUp.abort();
    await this.stop();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const periodMs = 1000 / this.#options.perSecond;
    let nextMs = performance.now();
    for (let i = 0; !signal.aborted; i += 1) {
      while (this.#underWay.size >= maxUnderWay) await Promise.race(this.#underWay);
      while (!signal.aborted && (await this.#isEnough())) await delay(retryMs, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      const sending = this.#send(`e-${i}`);
      this.#underWay.add(sending);
      void sending.finally(() => this.#underWay.delete(sending));
      // What was missed is not made up for: the pace stays steady.
      nextMs = Math.max(nextMs + periodMs, performance.now());
      await delay(Math.max(0, nextMs - performance.now()), undefined, { signal }).catch(() => {});
    }
  }

  async #isEnough(): Promise<boolean> {
    // While nobody answers, there is nothing to be learned, and the Echos wait for themselves.
    return (await this.#options.isEnough?.().catch(() => false)) ?? false;
  }

  async #send(name: string): Promise<void> {
    const { client, namespace } = this.#options;
    const { signal } = this.#giveUp;
    const startedAtMs = performance.now();
    while (!signal.aborted) {
      const taken = await client.create(Echo, echoManifest({ name, namespace }, { message: name }), { signal }).then(
        () => true,
        // Of an earlier attempt, whose answer was lost.
        (error: unknown) => isAlreadyExists(error),
      );
      if (taken) {
        this.#names.push(name);
        this.#slowestMs = Math.max(this.#slowestMs, performance.now() - startedAtMs);
        return;
      }
      await delay(retryMs, undefined, { signal }).catch(() => {});
    }
  }
}
