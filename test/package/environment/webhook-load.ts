import { setTimeout as delay } from 'node:timers/promises';
import { type Client, defineKind } from '@echoperator/runtime';
import { isInvalid } from '@echoperator/runtime/client';
import * as Type from 'typebox';

const kindOf = <S extends Type.TProperties>(version: string, spec: S) =>
  defineKind({
    group: 'example.com',
    version,
    kind: 'Greeting',
    plural: 'greetings',
    description: 'A Greeting as its clients see it.',
    spec: Type.Object(spec),
    status: Type.Object({}),
  });

/** The kind of docs/version-and-webhook.md in the version that is stored, and in the one that is converted. */
const StoredGreeting = kindOf('v1alpha1', { text: Type.String() });
const ConvertedGreeting = kindOf('v1', { message: Type.String() });

/** A request whose response was an error, or not what it must be. */
export interface FailedRequest {
  readonly request: string;
  /** By `performance.now`. */
  readonly startedMs: number;
  readonly endedMs: number;
  readonly problem: string;
}

/** Options of {@link WebhookLoad}. */
export interface WebhookLoadOptions {
  readonly client: Client;
  readonly namespace: string;
  /** Half of the requests are admissions, half are reads in the converted version. */
  readonly perSecond: number;
}

/** The most requests in flight. If the API server is slower, the load pauses. */
const maxInFlight = 60;
/** The newest objects are updated and read. Older ones stay: a slow request may still be about one. */
const usedObjects = 40;

/**
 * Sends requests at a steady pace until it is stopped: creations and updates, each of which calls both webhooks, of
 * which a tenth must be refused, and reads of single objects, each of which calls the conversion. Repeats none.
 */
export class WebhookLoad {
  readonly #options: WebhookLoadOptions;
  readonly #stop = new AbortController();
  readonly #inFlight = new Set<Promise<void>>();
  readonly #failures: FailedRequest[] = [];
  readonly #durationsMs: number[] = [];
  readonly #running: Promise<void>;
  /** The names of the objects, the newest last. */
  readonly #names: string[] = [];
  #admissions = 0;
  #conversions = 0;
  #sent = 0;
  /** How often a name was used. */
  #uses = 0;

  private constructor(options: WebhookLoadOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  static start(options: WebhookLoadOptions): WebhookLoad {
    return new WebhookLoad(options);
  }

  get failures(): readonly FailedRequest[] {
    return this.#failures;
  }

  /** How many admissions have had the right response, whether they were allowed or refused. */
  get admissions(): number {
    return this.#admissions;
  }

  /** How many reads in the converted version have had the right response. */
  get conversions(): number {
    return this.#conversions;
  }

  get sent(): number {
    return this.#sent;
  }

  get inFlight(): number {
    return this.#inFlight.size;
  }

  /** The response time that this share of the requests did not exceed, in milliseconds. */
  quantileMs(share: number): number {
    const sorted = this.#durationsMs.toSorted((a, b) => a - b);
    return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  }

  /** Stops the load and waits for the requests in flight. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    await Promise.all(this.#inFlight);
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const periodMs = 1000 / this.#options.perSecond;
    let nextMs = performance.now();
    for (let i = 0; !signal.aborted; i += 1) {
      while (this.#inFlight.size >= maxInFlight) await Promise.race(this.#inFlight);
      // The first requests create what the others use.
      if (i % 2 === 0 || this.#names.length === 0) this.#admit(i);
      else this.#read();
      // Does not catch up after a delay, so the pace stays steady.
      nextMs = Math.max(nextMs + periodMs, performance.now());
      await delay(Math.max(0, nextMs - performance.now()), undefined, { signal }).catch(() => {});
    }
  }

  #admit(i: number): void {
    const { client, namespace } = this.#options;
    const metadata = { namespace, name: `g-${i}` };
    const text = `text ${i}`;
    const turn = (i / 2) % 10;
    if (turn === 0 || this.#names.length < 2) {
      this.#send(`create ${metadata.name}`, 'admission', async () => {
        const created = await client.create(StoredGreeting, { metadata, spec: { text } });
        this.#names.push(metadata.name);
        return created.spec.text === text && 'example.com/created-by' in (created.metadata.annotations ?? {});
      });
      return;
    }
    const key = { namespace, name: this.#nextName() };
    if (turn === 5) {
      const body = { spec: { text: `cafe\u0301 ${i}` } };
      this.#send(`refuse ${key.name}`, 'admission', () =>
        client.patch(StoredGreeting, key, { type: 'merge', body }).then(() => false, ofRefusal),
      );
    } else if (turn % 2 === 0) {
      this.#send(`update ${key.name}`, 'admission', async () => {
        const updated = await client.patch(StoredGreeting, key, { type: 'merge', body: { spec: { text } } });
        return updated.spec.text === text;
      });
    } else {
      this.#send(`update ${key.name} as v1`, 'admission', async () => {
        const body = { spec: { message: text } };
        const updated = await client.patch(ConvertedGreeting, key, { type: 'merge', body });
        return updated.spec.message === text;
      });
    }
  }

  #read(): void {
    const { client, namespace } = this.#options;
    const name = this.#nextName();
    this.#send(`read ${name} as v1`, 'conversion', async () => {
      const { spec } = await client.get(ConvertedGreeting, { namespace, name });
      return /^text \d+$/.test(spec.message);
    });
  }

  /** In turn, so that two requests in flight rarely change the same object: the API server repeats a conflict. */
  #nextName(): string {
    const used = this.#names.slice(-usedObjects);
    this.#uses += 1;
    return used[this.#uses % used.length] ?? '';
  }

  #send(request: string, counted: 'admission' | 'conversion', action: () => Promise<boolean>): void {
    const startedMs = performance.now();
    this.#sent += 1;
    const fail = (problem: string) => this.#failures.push({ request, startedMs, endedMs: performance.now(), problem });
    const sending = action().then(
      (isRight) => {
        this.#durationsMs.push(performance.now() - startedMs);
        if (!isRight) fail('the response is wrong');
        else if (counted === 'admission') this.#admissions += 1;
        else this.#conversions += 1;
      },
      (error: Error) => {
        fail(error.message);
      },
    );
    this.#inFlight.add(sending);
    void sending.finally(() => this.#inFlight.delete(sending));
  }
}

/** A refusal of `validate` is what the request must get. Any other error is a failure. */
function ofRefusal(error: Error): boolean {
  if (isInvalid(error) && error.message.includes('must be in the normal form NFC')) return true;
  throw error;
}
