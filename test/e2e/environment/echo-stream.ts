import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@echoperator/runtime';
import { isAlreadyExists } from '@echoperator/runtime/client';
import { Echo } from '../../../src/kinds/echo/kind.ts';
import { echoManifest } from '../../../testkit/echos.ts';

/** Options of an {@link EchoStream}. */
export interface EchoStreamOptions {
  readonly client: Client;
  readonly namespace: string;
  readonly perSecond: number;
  /** Called before each Echo; true delays it. Default: always false. */
  readonly isEnough?: () => Promise<boolean>;
}

/** The most requests in flight. If the API server answers none of them, the stream pauses. */
const maxInFlight = 50;
const retryMs = 200;

/** Creates Echos at a steady pace until it is stopped. Repeats a request that the API server does not answer. */
export class EchoStream {
  readonly #options: EchoStreamOptions;
  readonly #stop = new AbortController();
  readonly #giveUp = new AbortController();
  readonly #names: string[] = [];
  readonly #inFlight = new Set<Promise<void>>();
  readonly #running: Promise<void>;
  #slowestMs = 0;

  private constructor(options: EchoStreamOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  static start(options: EchoStreamOptions): EchoStream {
    return new EchoStream(options);
  }

  /** The number of Echos that the API server has accepted. */
  get count(): number {
    return this.#names.length;
  }

  /** The longest time until an Echo was accepted, including failed attempts, in milliseconds. */
  get slowestMs(): number {
    return this.#slowestMs;
  }

  /** Stops the stream and waits for the requests in flight. @returns the names of all accepted Echos */
  async stop(): Promise<readonly string[]> {
    this.#stop.abort();
    await this.#running;
    await Promise.all(this.#inFlight);
    return this.#names;
  }

  /** Stops the stream and aborts the requests in flight. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#giveUp.abort();
    await this.stop();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const periodMs = 1000 / this.#options.perSecond;
    let nextMs = performance.now();
    for (let i = 0; !signal.aborted; i += 1) {
      while (this.#inFlight.size >= maxInFlight) await Promise.race(this.#inFlight);
      while (!signal.aborted && (await this.#isEnough())) await delay(retryMs, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      const sending = this.#send(`e-${i}`);
      this.#inFlight.add(sending);
      void sending.finally(() => this.#inFlight.delete(sending));
      // Does not catch up after a delay, so the pace stays steady.
      nextMs = Math.max(nextMs + periodMs, performance.now());
      await delay(Math.max(0, nextMs - performance.now()), undefined, { signal }).catch(() => {});
    }
  }

  async #isEnough(): Promise<boolean> {
    // If the API server does not answer, the creation of the next Echo waits for it anyway.
    return (await this.#options.isEnough?.().catch(() => false)) ?? false;
  }

  async #send(name: string): Promise<void> {
    const { client, namespace } = this.#options;
    const { signal } = this.#giveUp;
    const startedAtMs = performance.now();
    while (!signal.aborted) {
      const taken = await client.create(Echo, echoManifest({ name, namespace }, { message: name }), { signal }).then(
        () => true,
        // An earlier attempt succeeded, but its reply was lost.
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
