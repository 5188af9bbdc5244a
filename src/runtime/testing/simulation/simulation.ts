import { createClient } from '../../client/create-client.ts';
import type { Client } from '../../client/index.ts';
import type { AddOptions, DefinedController } from '../../controller/define-controller.ts';
import type { CustomKind, Kind, KubeObject } from '../../kind/index.ts';
import type { Logger } from '../../observability/index.ts';
import type { LeaderElectionOptions } from '../../process/candidate.ts';
import { SimulatedApiServer, type SimulatedApiServerOptions } from './simulated-api-server.ts';
import { type Delivery, SimulatedNetwork } from './simulated-network.ts';
import { type ProcessOptions, SimulatedProcess } from './simulated-process.ts';
import { VirtualTime } from './virtual-time.ts';

/** Options of {@link simulate}. */
export interface SimulationOptions extends Pick<SimulatedApiServerOptions, 'refuse'> {
  /** The controllers of the operator under test. The server serves their kinds. */
  readonly controllers: readonly DefinedController[];
  /** Other custom kinds that the server serves. */
  readonly kinds?: readonly CustomKind[];
  /** The operator's field manager. Default: `operator`. */
  readonly name?: string;
  /** As in `runOperator`. */
  readonly options?: AddOptions;
  /** Elects one of the processes of {@link Simulation.start}. Default: no leader election. */
  readonly leaderElection?: Omit<LeaderElectionOptions, 'identity'>;
  /** The operator's log. Default: none. */
  readonly log?: Logger;
  /** Of the random numbers, such as jitter. Equal seeds give equal runs. Default 1. */
  readonly seed?: number;
}

/** Chooses what happens next. Returns an index; 0 is what happens in an undisturbed run. */
export type Choose = (alternatives: readonly string[]) => number;

/** 2030-01-01, an arbitrary time at which a simulation begins. */
const startMs = Date.UTC(2030, 0, 1);

/** A simulation that takes more steps than this does not end by itself. */
const maxSteps = 100_000;

/** How long {@link Simulation.settle} waits for an operator that is busy without a request: longer than a status write is postponed. */
const maxBusyMs = 60_000;

/**
 * An operator, its API server, the network between them, and the time of all: everything in this process, and nothing happens by itself.
 *
 * Guarantees: equal seeds and equal tests give equal runs. Time advances only in {@link settle} and {@link advance}.
 *
 * Assumptions: the operator does no other input or output than through its client, and waits with timers or promises.
 */
export class Simulation {
  /** A user's client. Its requests are processed at once. */
  readonly client: Client;
  readonly server: SimulatedApiServer;
  readonly #network: SimulatedNetwork;
  readonly #time: VirtualTime;
  readonly #options: SimulationOptions;
  readonly #choose: Choose;
  readonly #processes: SimulatedProcess[] = [];
  /** What has happened, the newest last. */
  readonly story: string[] = [];

  /** @internal Use {@link simulate}. */
  constructor(options: SimulationOptions, time: VirtualTime, choose: Choose) {
    const kinds = [...new Set([...options.controllers.map(({ kind }) => kind), ...(options.kinds ?? [])])];
    this.server = new SimulatedApiServer({ kinds, ...(options.refuse && { refuse: options.refuse }) });
    this.#network = new SimulatedNetwork(this.server);
    this.#time = time;
    this.#options = options;
    this.#choose = choose;
    this.client = createClient(this.#network.connect('user', { isImmediate: true }), { fieldManager: 'user' });
  }

  /** The operator's processes that run. */
  get processes(): readonly SimulatedProcess[] {
    return this.#processes.filter(({ hasEnded }) => !hasEnded);
  }

  /** Starts another process of the operator. Without leader election it resolves when its caches have synced. */
  async start(): Promise<SimulatedProcess> {
    const { name = 'operator', controllers, options, leaderElection } = this.#options;
    const processOptions: ProcessOptions = {
      operatorName: name,
      controllers,
      leaderElection,
      log: this.#options.log ?? silent,
      ...(options && { options }),
    };
    const environment = { network: this.#network, time: this.#time };
    const process = await SimulatedProcess.start(`${name}-${this.#processes.length + 1}`, environment, processOptions);
    this.#processes.push(process);
    if (leaderElection === undefined) await this.#until(() => process.hasSynced || process.hasEnded);
    await process.checkHealth();
    return process;
  }

  /**
   * Lets everything happen until the operator rests: no request is in flight, its caches are current, and nothing is queued, running or
   * about to be written. What it does after a pause, such as a retry, happens in {@link advance}.
   *
   * @throws Error if it does not come to rest, or has failed.
   */
  async settle(): Promise<void> {
    const deadlineMs = this.#time.nowMs + maxBusyMs;
    for (let steps = 0; ; ) {
      steps += await this.#deliverAll();
      const resting = await Promise.all(this.processes.map((process) => process.isAtRest()));
      if (resting.every(Boolean)) break;
      const dueMs = this.#time.nextDueMs;
      if (dueMs === undefined || dueMs > deadlineMs || steps > maxSteps)
        throw this.#error('the operator does not come to rest');
      this.#fireTimer();
    }
    await Promise.all(this.#processes.map((process) => process.checkHealth()));
  }

  /** Lets time pass, and everything happen that happens in this time. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#time.nowMs + ms;
    for (;;) {
      await this.#deliverAll();
      const dueMs = this.#time.nextDueMs;
      if (dueMs === undefined || dueMs > endMs) break;
      this.#fireTimer();
    }
    this.#time.advanceTo(endMs);
    await this.settle();
  }

  /** The objects of a kind, in any namespace. */
  objects<T extends KubeObject>(kind: Kind<T>): readonly T[] {
    return this.server.objects(kind) as unknown as readonly T[];
  }

  /** Ends all processes. */
  async end(): Promise<void> {
    const stopping = this.processes.map((process) => process.stop());
    let hasEnded = false;
    const all = Promise.all(stopping).then(() => {
      hasEnded = true;
    });
    await this.#until(() => hasEnded);
    await all;
  }

  async #until(isReached: () => boolean): Promise<void> {
    for (let steps = 0; ; ) {
      steps += await this.#deliverAll();
      if (isReached()) return;
      if (this.#time.nextDueMs === undefined || steps > maxSteps) throw this.#error('the simulation stands still');
      this.#fireTimer();
    }
  }

  /** Delivers until nothing is on its way. Returns the number of steps. */
  async #deliverAll(): Promise<number> {
    for (let steps = 0; ; steps += 1) {
      await this.#time.quiet();
      const deliveries = this.#network.deliveries();
      if (deliveries.length === 0) return steps;
      if (steps > maxSteps) throw this.#error('the operator sends requests without end');
      this.#happen(deliveries[this.#choose(deliveries.map(({ description }) => description))] ?? deliveries[0]);
    }
  }

  #happen(delivery: Delivery | undefined): void {
    if (delivery === undefined) return;
    this.story.push(delivery.description);
    delivery.run();
  }

  #fireTimer(): void {
    this.#time.fireNext();
  }

  #error(message: string): Error {
    const last = this.story.slice(-20).map((line) => `\n  ${line}`);
    return new Error(`${message}. The last steps:${last.join('')}`);
  }
}

const silent: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent };

/**
 * Runs a test of an operator against a simulated API server, without a network and without waiting: pauses take no time.
 *
 * It replaces the clock, the timers and the random numbers of the process until it returns, so await it, and run one at a time.
 *
 * @returns what the test returns.
 * @throws what the test throws; NotSimulatedError for a request that the simulated server does not know.
 *
 * @example
 * await simulate({ controllers: [greetings] }, async ({ client, settle }) => { … });
 */
export async function simulate<R>(
  options: SimulationOptions,
  test: (simulation: Simulation) => Promise<R>,
): Promise<R> {
  const time = new VirtualTime({ startMs, random: randomNumbers(options.seed ?? 1) });
  time.install();
  try {
    const simulation = new Simulation(options, time, () => 0);
    await simulation.start();
    const result = await test(simulation);
    await simulation.end();
    return result;
  } finally {
    time.restore();
  }
}

/** Returns a generator of numbers from 0 to 1 (mulberry32). */
function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
