import type { CustomKind, Kind, KubeObject, Logger, Operator } from '@echoperator/runtime';
import type { Client, Status } from '@echoperator/runtime/client';
import { createClient } from '@echoperator/runtime/client';
import type { AddOptions, DefinedController } from '@echoperator/runtime/controller';
import type { LeaderElectionOptions } from '@echoperator/runtime/process';
import { ClosedWorld } from './closed-world.ts';
import { GarbageCollector } from './garbage-collector.ts';
import { ProcessOracle } from './process-oracle.ts';
import type { AdmittedRequest } from './resource-request.ts';
import { isInProcess, RunningProcess } from './running-process.ts';
import { SimulatedApiServer } from './simulated-api-server.ts';
import { SimulatedNetwork, type SimulationStep } from './simulated-network.ts';
import { VirtualTime } from './virtual-time.ts';

/** What every simulation needs. */
export interface ClusterOptions {
  /**
   * Plays admission, permissions and quotas: returns the status with which the server refuses a request, or undefined. It gets every
   * request, reads and those of the user too: look at `verb` and `from`. Default: the server accepts what is valid.
   */
  readonly refuse?: (request: AdmittedRequest) => (Status & { readonly code: number }) | undefined;
  /** The operator's field manager. Default: `operator`. */
  readonly name?: string;
  /** Elects one of the operator's processes. Default: no leader election. */
  readonly leaderElection?: Omit<LeaderElectionOptions, 'identity'>;
  /** Plays other controllers of the cluster: returns what they would do next. The garbage collector is there already. Default: none. */
  readonly otherControllers?: (simulation: Simulation) => readonly SimulationStep[];
  /** The operator's log. Default: none. */
  readonly log?: Logger;
  /** Of the random numbers, such as jitter. Equal seeds give equal runs. Default 1. */
  readonly seed?: number;
}

/** Options of {@link simulate}. */
export interface SimulationOptions extends ClusterOptions {
  /** The controllers of the operator under test. The server serves their kinds. */
  readonly controllers: readonly DefinedController[];
  /** Other custom kinds that the server serves. Default: none. */
  readonly kinds?: readonly CustomKind[];
  /** Options of the controllers, as of `runOperator`: `namespaces`, `caches`. */
  readonly controllerOptions?: AddOptions;
  /** Creates what exists before the operator starts. Default: nothing. */
  readonly before?: (client: Client) => Promise<unknown>;
}

/** A process of the operator in a simulation. */
export interface SimulatedProcess {
  /** `operator-1` */
  readonly name: string;
  readonly operator: Operator;
  /** Whether its caches have synced, and it leads if there is leader election. */
  readonly isWorking: boolean;
  readonly hasEnded: boolean;
}

/**
 * An operator, its API server, the network between them, and the time of all, in this process. Nothing happens by itself.
 *
 * Guarantees: equal seeds and equal tests give equal runs. Time passes only in {@link start}, {@link settle} and {@link advance}, and with
 * each step.
 *
 * Assumptions: the operator does no other input or output than through its client, and waits with timers or promises. A socket, a file, a
 * process or a worker is refused, apart from synchronous reads.
 */
export interface Simulation {
  /** A user's client. Its requests are processed at once. */
  readonly client: Client;
  /** The operator's processes that run. */
  readonly processes: readonly SimulatedProcess[];
  /** What has happened, one step per line. */
  readonly story: readonly string[];
  /** Milliseconds since 1970. */
  readonly nowMs: number;
  /** The objects of a kind, in all namespaces. */
  objects<T extends KubeObject>(kind: Kind<T>): readonly T[];
  /**
   * Lets everything happen until the operator rests: no request is in flight, its caches are current, and nothing is queued, running or
   * about to be written. What it does after a pause, such as a retry, happens in {@link advance}.
   *
   * @throws Error if it does not come to rest, or has failed.
   */
  settle(): Promise<void>;
  /** Lets time pass, and everything happen that happens in this time; then as {@link settle}. */
  advance(ms: number): Promise<void>;
  /** Starts another process of the operator. Resolves when the operator works: with leader election, when some process does. */
  start(): Promise<SimulatedProcess>;
  /** Ends a process at once, as SIGKILL does. Requests that it has sent may still arrive. */
  crash(process: SimulatedProcess): void;
  /** Breaks all connections of a process. The server never gets what it has not processed yet. */
  cut(process: SimulatedProcess): void;
  /**
   * Cuts a process off from the server for this long, in milliseconds: no request, response or event arrives, and its connections stay open.
   * What the process has sent arrives afterwards, unless it has given up by then.
   */
  cutOff(process: SimulatedProcess, forMs: number): void;
  /** The server forgets the changes so far: a watch from an earlier version fails with 410, as after a compaction of etcd. */
  compact(): void;
}

/** What decides about a simulation. */
export interface Director {
  /** Chooses what happens next. Returns an index; 0 is what happens in an undisturbed run. */
  choose(alternatives: readonly SimulationStep[]): number;
  /** Steps that only a disturbed run has, such as a crash. */
  disturbances?(): readonly SimulationStep[];
}

/** 2030-01-01, an arbitrary time at which a simulation begins. */
const startMs = Date.UTC(2030, 0, 1);

/** How long each step takes, in milliseconds: what waits for a time must not wait for ever while others are busy. */
const stepMs = 1;

/** A simulation that takes more steps than this without a pause does not end by itself. */
const maxSteps = 2000;

/** As many more for each object. */
const maxStepsPerObject = 50;

/** An operator that is busy for so many timers does not come to rest. */
const maxTimers = 1000;

/** The {@link Simulation}, and what only its director may do. */
export class DirectedSimulation implements Simulation {
  readonly client: Client;
  readonly server: SimulatedApiServer;
  readonly #network: SimulatedNetwork;
  readonly #time: VirtualTime;
  readonly #options: ClusterOptions;
  readonly #addControllers: (operator: Operator) => unknown;
  readonly #director: Director;
  readonly #garbageCollector: GarbageCollector;
  readonly #processes: RunningProcess[] = [];
  /** By process. */
  readonly #oracles = new Map<string, ProcessOracle>();
  readonly #story: string[] = [];

  constructor(
    options: ClusterOptions & { readonly kinds: readonly CustomKind[] },
    addControllers: (operator: Operator) => unknown,
    time: VirtualTime,
    director: Director,
  ) {
    const { kinds, refuse } = options;
    this.server = new SimulatedApiServer({ kinds, ...(refuse && { refuse }) });
    this.#network = new SimulatedNetwork(this.server, (process, method, body) =>
      this.#oracles.get(process)?.responded(method, body),
    );
    this.#time = time;
    this.#options = options;
    this.#addControllers = addControllers;
    this.#director = director;
    this.#garbageCollector = new GarbageCollector(this.server);
    this.client = createClient(this.#network.connect('user', { isImmediate: true }), { fieldManager: 'user' });
  }

  get processes(): readonly RunningProcess[] {
    return this.#processes.filter(({ hasEnded }) => !hasEnded);
  }

  get story(): readonly string[] {
    return this.#story;
  }

  get nowMs(): number {
    return this.#time.nowMs;
  }

  /** How many requests the operator's processes have sent, apart from lists, watches and those about Leases. */
  get requests(): number {
    return this.#network.requests;
  }

  /** Adds a line to the story. */
  note(line: string): void {
    this.#story.push(`${((this.#time.nowMs - startMs) / 1000).toFixed(3)} s  ${line}`);
  }

  /** Starts another process of the operator, and resolves before it does anything. */
  async launch(): Promise<RunningProcess> {
    const { name = 'operator', leaderElection, log = silent } = this.#options;
    const number = this.#processes.length + 1;
    const processName = `${name}-${number}`;
    const oracle = new ProcessOracle(processName, this.server);
    this.#oracles.set(processName, oracle);
    const process = await RunningProcess.start(processName, this.#network, this.#time, {
      operatorName: name,
      addControllers: this.#addControllers,
      leaderElection,
      log,
      oracle,
    });
    this.#processes.push(process);
    return process;
  }

  async start(): Promise<RunningProcess> {
    const process = await this.launch();
    await this.until(() => process.hasEnded || this.processes.some(({ isWorking }) => isWorking));
    await this.#checkHealth();
    return process;
  }

  crash({ name }: SimulatedProcess): void {
    this.#network.abandon(name);
    this.#processes.find((process) => process.name === name)?.end();
  }

  cut({ name }: SimulatedProcess): void {
    this.#network.cut(name);
  }

  cutOff({ name }: SimulatedProcess, forMs: number): void {
    this.#network.cutOff(name, forMs);
  }

  compact(): void {
    this.server.compact();
  }

  /** Tells each watch that it has delivered everything, as the API server does once a minute. */
  bookmark(): void {
    this.#network.bookmark();
  }

  async settle(): Promise<void> {
    for (let fired = 0; !(await this.#isAtRest()); fired += 1) {
      if (this.#time.nextDueMs === undefined || fired > maxTimers)
        throw this.error('the operator does not come to rest');
      this.#time.fireNext();
    }
    await this.#checkHealth();
  }

  async advance(ms: number): Promise<void> {
    const endMs = this.#time.nowMs + ms;
    for (;;) {
      await this.#deliverAll(() => this.#time.nowMs > endMs);
      const dueMs = this.#time.nextDueMs;
      if (dueMs === undefined || dueMs > endMs) break;
      this.#time.fireNext();
    }
    this.#time.advanceTo(endMs);
    await this.settle();
  }

  /** Lets everything happen, and time pass, until this is true. @throws Error if nothing happens any more */
  async until(isReached: () => boolean): Promise<void> {
    for (let fired = 0; ; fired += 1) {
      await this.#deliverAll(isReached);
      if (isReached()) return;
      if (this.#time.nextDueMs === undefined) throw this.error('the simulation stands still');
      if (fired > maxTimers) throw this.error('what the simulation waits for does not happen');
      this.#time.fireNext();
    }
  }

  objects<T extends KubeObject>(kind: Kind<T>): readonly T[] {
    return structuredClone(this.server.objects(kind)) as unknown as readonly T[];
  }

  /** Tells all processes to stop, and resolves when they have ended. */
  async end(): Promise<void> {
    const stopping = this.processes.map((process) => process.stop());
    await this.until(() => this.processes.length === 0);
    await Promise.all(stopping);
    await this.#checkHealth();
  }

  /** Adds the last steps to a message. */
  error(message: string, cause?: unknown): Error {
    const last = this.#story
      .filter((line) => !line.includes('/leases'))
      .slice(-30)
      .map((line) => `\n  ${line}`);
    return new Error(`${message}\nThe last steps:${last.join('')}`, { cause });
  }

  async #isAtRest(): Promise<boolean> {
    await this.#deliverAll();
    const resting = await Promise.all(this.processes.map((process) => process.isAtRest()));
    return resting.every(Boolean) && this.processes.some(({ isWorking }) => isWorking);
  }

  /** Delivers until nothing is on its way, or the condition is true. */
  async #deliverAll(isReached: () => boolean = () => false): Promise<void> {
    for (let steps = 0; ; steps += 1) {
      await this.#time.quiet();
      if (isReached()) return;
      if ((this.#time.nextDueMs ?? Number.POSITIVE_INFINITY) <= this.#time.nowMs) {
        this.#time.fireNext();
        continue;
      }
      const due = [
        ...this.#network.steps(),
        ...this.#garbageCollector.steps(),
        ...(this.#options.otherControllers?.(this) ?? []),
      ];
      if (due.length === 0) return;
      if (steps > maxSteps && steps > maxSteps + maxStepsPerObject * [...this.server.all()].length)
        throw this.error('the operator sends requests without end');
      const alternatives = [...due, ...this.#timerSteps(), ...(this.#director.disturbances?.() ?? [])];
      const step = alternatives[this.#director.choose(alternatives)];
      if (step === undefined) throw new RangeError(`there are ${alternatives.length} alternatives`);
      this.note(step.description);
      await step.run();
      this.#time.advanceTo(this.#time.nowMs + stepMs);
    }
  }

  #timerSteps(): readonly SimulationStep[] {
    const dueMs = this.#time.nextDueMs;
    if (dueMs === undefined) return [];
    const seconds = (dueMs - this.#time.nowMs) / 1000;
    return [{ description: `${seconds} s pass meanwhile`, run: () => this.#time.fireNext() }];
  }

  async #checkHealth(): Promise<void> {
    await Promise.all(this.#processes.map((process) => process.checkHealth()));
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
 * await simulate({ controllers: [greetings] }, async (simulation) => {
 *   await simulation.client.create(Greeting, { metadata: { name: 'hello', namespace: 'default' }, spec: { who: 'world' } });
 *   await simulation.settle();
 *   assert.equal(simulation.objects(ConfigMap)[0]?.data?.text, 'Hello, world!');
 * });
 */
export async function simulate<R>(
  options: SimulationOptions,
  test: (simulation: Simulation) => Promise<R>,
): Promise<R> {
  const { controllers, controllerOptions, before } = options;
  const kinds = [...new Set([...controllers.map(({ kind }) => kind), ...(options.kinds ?? [])])];
  const add = (operator: Operator): void => {
    for (const controller of controllers) controller.add(operator, controllerOptions);
  };
  return inVirtualTime(options.seed ?? 1, async (time) => {
    const simulation = new DirectedSimulation({ ...options, kinds }, add, time, { choose: () => 0 });
    await before?.(simulation.client);
    await simulation.start();
    const result = await test(simulation);
    await simulation.end();
    return result;
  });
}

/** Runs a function with a clock and random numbers of its own in place of the process's, and without real input and output. */
export async function inVirtualTime<R>(seed: number, run: (time: VirtualTime) => Promise<R>): Promise<R> {
  const time = new VirtualTime({ startMs, random: randomNumbers(seed) });
  const world = new ClosedWorld(isInProcess);
  time.install();
  world.install();
  try {
    const result = await run(time);
    world.check();
    return result;
  } catch (error) {
    // It explains whatever has failed.
    world.check();
    throw error;
  } finally {
    world.restore();
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
