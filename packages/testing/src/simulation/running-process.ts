import { AsyncLocalStorage } from 'node:async_hooks';
import type { Logger, Operator } from '@echoperator/runtime';
import { connectOperatorWith } from '@echoperator/runtime/internal';
import { LeadershipLostError } from '@echoperator/runtime/leader-election';
import type { LeaderElectionOptions } from '@echoperator/runtime/process';
import { Metrics } from '@echoperator/runtime/process';
import { Registry } from 'prom-client';
import type { ProcessOracle } from './process-oracle.ts';
import type { SimulatedNetwork } from './simulated-network.ts';
import type { VirtualTime } from './virtual-time.ts';

/** The simulated process that the running code belongs to. Promises and timers inherit it. */
const currentProcess = new AsyncLocalStorage<string>();

/** Whether the running code belongs to a simulated process. */
export const isInProcess = (): boolean => currentProcess.getStore() !== undefined;

/** The gauges that are 0 when an operator rests: nothing is queued or running. */
const restGauges = ['workqueue_depth', 'controller_runtime_active_workers'];

/** Options of a {@link RunningProcess}. */
export interface ProcessOptions {
  /** The operator's field manager. */
  readonly operatorName: string;
  readonly addControllers: (operator: Operator) => unknown;
  readonly leaderElection?: Omit<LeaderElectionOptions, 'identity'> | undefined;
  readonly log: Logger;
  readonly oracle: ProcessOracle;
}

/** An operator in a simulation that behaves like a separate process: it can crash. */
export class RunningProcess {
  readonly name: string;
  readonly operator: Operator;
  readonly oracle: ProcessOracle;
  readonly #time: VirtualTime;
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;
  #state: 'starting' | 'synced' | 'ended' = 'starting';
  #failure: unknown;

  private constructor(name: string, operator: Operator, oracle: ProcessOracle, time: VirtualTime) {
    this.name = name;
    this.oracle = oracle;
    this.operator = operator;
    this.#time = time;
    this.#ended = currentProcess.run(name, () => this.#run());
  }

  /** Connects and starts an operator. */
  static start(
    name: string,
    network: SimulatedNetwork,
    time: VirtualTime,
    options: ProcessOptions,
  ): Promise<RunningProcess> {
    return currentProcess.run(name, () => RunningProcess.#start(name, network, time, options));
  }

  static async #start(
    name: string,
    network: SimulatedNetwork,
    time: VirtualTime,
    { operatorName, addControllers, leaderElection, log, oracle }: ProcessOptions,
  ): Promise<RunningProcess> {
    const operator = await connectOperatorWith(new Metrics(new Registry()), {
      name: operatorName,
      connection: network.connect(name),
      instance: name,
      log,
      observer: oracle,
      leaderElection: leaderElection && { ...leaderElection, identity: name },
    });
    await addControllers(operator);
    oracle.watch(operator.manager);
    return new RunningProcess(name, operator, oracle, time);
  }

  /** Whether its caches have synced. With leader election, it must also lead. */
  get isWorking(): boolean {
    return this.#state === 'synced' && this.operator.elector?.isLeading !== false;
  }

  get hasEnded(): boolean {
    return this.#state === 'ended';
  }

  /** Whether nothing is queued or running. Work after a pause does not count. */
  async isAtRest(): Promise<boolean> {
    const { elector } = this.operator;
    if (this.hasEnded || elector?.isLeading === false) return true;
    if (!this.isWorking) return false;
    const sums = await Promise.all(restGauges.map((name) => this.#sum(name)));
    return sums.every((sum) => sum === 0);
  }

  /** @throws Error if the operator has failed, or a reconcile has thrown an error that is not an API error. */
  async checkHealth(): Promise<void> {
    if (this.#failure !== undefined) throw new Error(`${this.name} failed`, { cause: this.#failure });
    if ((await this.#sum('controller_runtime_reconcile_panics_total')) > 0)
      throw new Error(`a reconcile of ${this.name} panicked`);
  }

  /**
   * Stops the process, as SIGTERM does. Resolves when it has ended; for that, the caller must run the network and the
   * clock.
   */
  stop(): Promise<void> {
    this.#stop.abort();
    return this.#ended;
  }

  /** Ends the process immediately: none of its timers fires any more. */
  end(): void {
    this.#state = 'ended';
    this.#time.removeTimers(() => currentProcess.getStore() === this.name);
  }

  async #run(): Promise<void> {
    const { operator } = this;
    // `synced` never rejects.
    void operator.manager.synced.then(() => {
      if (this.#state === 'starting') this.#state = 'synced';
    });
    try {
      await operator.run(this.#stop.signal);
    } catch (error) {
      // A process that has lost its Lease ends, so that another one takes over.
      if (!(error instanceof LeadershipLostError)) this.#failure = error;
    }
    this.#state = 'ended';
  }

  async #sum(name: string): Promise<number> {
    const metric = await this.operator.metrics.registry.getSingleMetric(name)?.get();
    if (metric === undefined) throw new Error(`the operator has no metric ${name}`);
    return metric.values.reduce((sum, { value }) => sum + value, 0);
  }
}
