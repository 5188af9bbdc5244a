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

/** Options of every simulation. */
export interface ClusterOptions {
  /**
   * Simulates admission, permissions and quotas: returns the status with which the server refuses a request, or
   * undefined. It receives every request, including reads and the user's requests: check `verb` and `from`. Default:
   * the server accepts every valid request.
   */
  readonly refuse?: (request: AdmittedRequest) => (Status & { readonly code: number }) | undefined;
  /**
   * Serves kinds in all their versions (`withVersion`), and their definitions with `status.storedVersions`. Converts an
   * object to the version that `apiVersion` names; it must not change its argument. Default: only the stored versions.
   */
  readonly convert?: (object: KubeObject, apiVersion: string) => KubeObject;
  /** The operator's field manager. Default: `operator`. */
  readonly name?: string;
  /** Elects one of the operator's processes. Default: no leader election. */
  readonly leaderElection?: Omit<LeaderElectionOptions, 'identity'>;
  /**
   * Simulates other controllers of the cluster: returns their next steps. The garbage collector is always simulated.
   * Default: none.
   */
  readonly otherControllers?: (simulation: Simulation) => readonly SimulationStep[];
  /** The operator's log. Default: none. */
  readonly log?: Logger;
  /** The seed of the random numbers, such as jitter. Equal seeds give equal runs. Default 1. */
  readonly seed?: number;
}

/** Options of {@link simulate}. */
export interface SimulationOptions extends ClusterOptions {
  /** The controllers of the operator under test. The server serves their kinds. Default: none. */
  readonly controllers?: readonly DefinedController[];
  /** Adds what `runOperator` takes as `setUp`, such as controllers of the layer below. Default: nothing. */
  readonly addControllers?: (operator: Operator) => unknown;
  /** Other custom kinds that the server serves. Default: none. */
  readonly kinds?: readonly CustomKind[];
  /** Options of the controllers, as in `runOperator`: `namespaces`, `caches`. */
  readonly controllerOptions?: AddOptions;
  /** Creates the objects that exist before the operator starts. Default: none. */
  readonly before?: (client: Client) => Promise<unknown>;
}

/** A process of the operator in a simulation. */
export interface SimulatedProcess {
  /** `operator-1` */
  readonly name: string;
  readonly operator: Operator;
  /** Whether the process's caches have synced. With leader election, it must also lead. */
  readonly isWorking: boolean;
  readonly hasEnded: boolean;
}

/**
 * Runs an operator, its API server, the network between them, and their clock in this process. Nothing happens by
 * itself.
 *
 * Guarantees: equal seeds and equal tests give equal runs. Time passes only in {@link start}, {@link settle} and
 * {@link advance}, and with each step.
 *
 * Assumptions: the operator does no input or output except through its client, and waits only with timers or promises.
 * A socket, a file, a process or a worker is refused, except synchronous reads.
 */
export interface Simulation {
  /** A user's client. Its requests are processed at once. */
  readonly client: Client;
  /** The operator's running processes. */
  readonly processes: readonly SimulatedProcess[];
  /** The steps so far, one per line. */
  readonly story: readonly string[];
  /** Milliseconds since 1970. */
  readonly nowMs: number;
  /** The objects of a kind, in all namespaces. */
  objects<T extends KubeObject>(kind: Kind<T>): readonly T[];
  /**
   * Runs steps until the operator rests: no request is in flight, its caches are current, and nothing is queued,
   * running or about to be written. Work after a pause, such as a retry, happens in {@link advance}.
   *
   * @throws Error if the operator does not come to rest, or has failed.
   */
  settle(): Promise<void>;
  /** Lets time pass and runs everything that is due in this time. Then settles, as {@link settle} does. */
  advance(ms: number): Promise<void>;
  /**
   * Starts another process of the operator. Resolves when this process works; with leader election, when any process
   * does.
   */
  start(): Promise<SimulatedProcess>;
  /** Ends a process immediately, as SIGKILL does. Requests in flight may still arrive. */
  crash(process: SimulatedProcess): void;
  /** Breaks all connections of a process. The server never processes a request that it has not processed by then. */
  cut(process: SimulatedProcess): void;
  /**
   * Cuts a process off from the server for this long, in milliseconds: no request, response or event arrives, and its
   * connections stay open. The process's requests arrive afterwards, unless the process has given up by then.
   */
  cutOff(process: SimulatedProcess, forMs: number): void;
  /**
   * Makes the server forget the changes so far, as a compaction of etcd does: a watch from an earlier version fails
   * with 410.
   */
  compact(): void;
}

/** An error whose message has the last steps. */
export class StoryError extends Error {}

/** Chooses the steps of a simulation. */
export interface Director {
  /** Chooses the next step. Returns its index; 0 is the next step of an undisturbed run. */
  choose(alternatives: readonly SimulationStep[]): number;
  /** Steps that only a disturbed run has, such as a crash. */
  disturbances?(): readonly SimulationStep[];
}

/** 2030-01-01: the arbitrary time at which a simulation begins. */
const startMs = Date.UTC(2030, 0, 1);

/**
 * How long each step takes, in milliseconds. If steps took no time, a timer would never fire while other work
 * continues.
 */
const stepMs = 1;

/** If a simulation takes more steps than this without a pause, it does not end by itself. */
const maxSteps = 2000;

/** Additional steps for each object. */
const maxStepsPerObject = 50;

/** If an operator is busy for more timers than this, it does not come to rest. */
const maxTimers = 1000;

/** The {@link Simulation}, with the additional methods of its director. */
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
    const { kinds, convert, refuse } = options;
    this.server = new SimulatedApiServer({ kinds, convert, ...(refuse && { refuse }) });
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

  /** How many requests the operator's processes have sent, without those that an operator at rest sends too. */
  get requests(): number {
    return this.#network.requests;
  }

  /** How many requests of crashed processes have changed something. */
  get lateWrites(): number {
    return this.#network.lateWrites;
  }

  /** Adds a line to {@link story}. */
  note(line: string): void {
    this.#story.push(this.storyLine(line));
  }

  /** A line of the story, as of now. */
  storyLine(line: string): string {
    return `${((this.#time.nowMs - startMs) / 1000).toFixed(3)} s  ${line}`;
  }

  /** Starts another process of the operator, and resolves before the process does anything. */
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

  /** Sends each watch a bookmark, as the API server does once a minute. */
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

  /** Runs steps and lets time pass until the condition is true. @throws Error if no step remains */
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

  /** Stops all processes, and resolves when they have ended. */
  async end(): Promise<void> {
    const stopping = this.processes.map((process) => process.stop());
    await this.until(() => this.processes.length === 0);
    await Promise.all(stopping);
    await this.#checkHealth();
  }

  /** Adds the last steps to a message. */
  error(message: string, cause?: unknown): StoryError {
    const last = this.#story
      .filter((line) => !line.includes('/leases'))
      .slice(-30)
      .map((line) => `\n  ${line}`);
    return new StoryError(`${message}\nThe last steps:${last.join('')}`, { cause });
  }

  async #isAtRest(): Promise<boolean> {
    await this.#deliverAll();
    const resting = await Promise.all(this.processes.map((process) => process.isAtRest()));
    return resting.every(Boolean) && this.processes.some(({ isWorking }) => isWorking);
  }

  /** Runs steps until nothing is in flight, or the condition is true. */
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
 * Runs a test of an operator against a simulated API server, without a network and without waiting: pauses take no
 * time.
 *
 * It replaces the clock, the timers and the random numbers of the process until it returns. So await it, and run only
 * one simulation at a time.
 *
 * @returns what the test returns.
 * @throws what the test throws; NotSimulatedError for a request that the simulated server does not support.
 *
 * @example
 * await simulate({ controllers: [greetings] }, async (simulation) => {
 *   const metadata = { name: 'hello', namespace: 'default' };
 *   await simulation.client.create(Greeting, { metadata, spec: { who: 'world' } });
 *   await simulation.settle();
 *   assert.equal(simulation.objects(ConfigMap)[0]?.data?.text, 'Hello, world!');
 * });
 */
export async function simulate<R>(
  options: SimulationOptions,
  test: (simulation: Simulation) => Promise<R>,
): Promise<R> {
  const { controllers = [], addControllers, controllerOptions, before } = options;
  const kinds = [...new Set([...controllers.map(({ kind }) => kind), ...(options.kinds ?? [])])];
  const add = async (operator: Operator): Promise<void> => {
    for (const controller of controllers) controller.add(operator, controllerOptions);
    await addControllers?.(operator);
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

/** Runs a function with a virtual clock and seeded random numbers, and without real input and output. */
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
    // A refused input or output explains any other failure, so report it first.
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
