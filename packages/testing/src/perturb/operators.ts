import { connectOperatorWith } from '@echoperator/runtime/internal';
import { Metrics } from '@echoperator/runtime/process';
import { Registry } from 'prom-client';
import { FaultProxy, type ObservedResponse } from '../fault-proxy.ts';
import { isWatch, type ProxiedRequest } from '../proxied-request.ts';
import { allEnded, messageOf } from './errors.ts';
import { leaseTimings, RunningOperator } from './operator.ts';
import type { ExternalWrite, PerturbOptions, Scenario } from './scenario.ts';

/** What a run does with what its operators do. It is not told about requests for a Lease. */
export interface OperatorObserver {
  note(line: string): void;
  /** An operator that will use this proxy has not connected yet. */
  starts(proxy: FaultProxy): void;
  /** @param clientPort the port of the client's end of the connection */
  sends(request: ProxiedRequest, operator: RunningOperator, clientPort: number | undefined): void;
  /** Not for a watch. @param response undefined: the API server never responds */
  receives(request: ProxiedRequest, response: ObservedResponse | undefined, operator: RunningOperator): void;
  /** @param line the event, as JSON */
  receivesEvent(line: string, operator: RunningOperator): void;
  /** The API server has ended or refused a watch. */
  watchEnds(): void;
  /** A proxy in front of another system has received a write. */
  externalWrite(description: string, operator: RunningOperator): ExternalWrite;
}

export interface OperatorsOptions extends Pick<PerturbOptions, 'connection' | 'operatorConnection' | 'log'> {
  readonly scenario: Scenario;
  /** Whether two operators contend for a Lease. */
  readonly hasStandby: boolean;
}

/** The operators of a run: after a crash a new one starts, and a standby takes over from a leader. */
export class Operators {
  readonly #options: OperatorsOptions;
  readonly #observer: OperatorObserver;
  readonly #all: RunningOperator[] = [];
  #current: RunningOperator | undefined;
  #takingOver: Promise<void> = Promise.resolve();

  constructor(options: OperatorsOptions, observer: OperatorObserver) {
    this.#options = options;
    this.#observer = observer;
  }

  /** The one that works, if it has not crashed. */
  get current(): RunningOperator | undefined {
    return this.#current;
  }

  /** Whether a request that reaches the API server has no response yet. */
  get hasRequestInFlight(): boolean {
    return this.#all.some(({ inFlight, isCutOff }) => inFlight > 0 && !isCutOff);
  }

  /** Starts the first operator. */
  async start(namespace: string): Promise<void> {
    this.#current = await this.#startOperator(namespace);
  }

  /** Starts the standby, if there is to be one. */
  async startStandby(namespace: string): Promise<void> {
    if (this.#options.hasStandby) await this.#startOperator(namespace);
  }

  /** Lets the standby take over when the leader has left. */
  handOver(leader: RunningOperator, hasLeft: Promise<void>): void {
    this.#takeOver(hasLeft.then(() => this.#all[leader.number]));
  }

  /**
   * Resolves when the operator that has to take over has done so, and its caches have synced.
   *
   * @throws Error if it failed
   */
  async ready(): Promise<void> {
    await this.#takingOver;
    await this.#current?.ready();
  }

  /** @throws Error if an operator has ended by itself or panicked */
  async checkHealth(): Promise<void> {
    for (const operator of this.#all) await operator.checkHealth();
  }

  async stop(): Promise<void> {
    await Promise.allSettled([this.#takingOver]);
    await allEnded(this.#all.map((operator) => operator.stop()));
  }

  /** @param starting resolves to the operator that works from then on */
  #takeOver(starting: Promise<RunningOperator | undefined>): void {
    this.#takingOver = starting.then((operator) => {
      this.#current = operator;
    });
    // The next check of the rest throws it: this only prevents an unhandled rejection, and notes the error in the
    // timeline.
    this.#takingOver.catch((error: unknown) => this.#observer.note(`no operator: ${messageOf(error)}`));
  }

  async #startOperator(namespace: string): Promise<RunningOperator> {
    const { connection, operatorConnection = connection, log, scenario, hasStandby } = this.#options;
    const number = this.#all.length + 1;
    const proxy = await this.#startProxy(operatorConnection, number, namespace);
    this.#observer.starts(proxy);
    const connected = await connectOperatorWith(new Metrics(new Registry()), {
      name: 'operator',
      log,
      connection: proxy.connection,
      drainTimeoutMs: 1000,
      leaderElection: hasStandby
        ? { lease: { namespace, name: 'operator' }, timings: leaseTimings, warmStandby: true }
        : undefined,
    });
    const operator = new RunningOperator(number, connected, proxy);
    this.#all.push(operator);
    await operator.start(
      scenario.addControllers(connected, namespace, {
        gate: operator.gate,
        write: (description) => this.#observer.externalWrite(description, operator),
      }),
    );
    this.#observer.note(`operator ${number} starts`);
    return operator;
  }

  #startProxy(upstream: PerturbOptions['connection'], number: number, namespace: string): Promise<FaultProxy> {
    const observing = (observe: (operator: RunningOperator) => void): void => {
      const operator = this.#all[number - 1];
      if (operator !== undefined) observe(operator);
    };
    const isLease = ({ resource }: ProxiedRequest): boolean => resource === 'leases';
    return FaultProxy.start({
      upstream,
      observer: {
        request: (request, clientPort) =>
          observing((operator) => {
            if (isLease(request)) return;
            if (!isWatch(request)) operator.inFlight += 1;
            this.#observer.sends(request, operator, clientPort);
          }),
        response: (request, response) =>
          observing((operator) => {
            if (isLease(request) || isWatch(request)) return;
            operator.inFlight -= 1;
            this.#observer.receives(request, response, operator);
          }),
        watchEnded: (request) => {
          if (!isLease(request)) this.#observer.watchEnds();
        },
        watchEvent: (_, line) => observing((operator) => this.#observer.receivesEvent(line, operator)),
        crash: () =>
          observing((operator) => {
            operator.crashed();
            this.#observer.note(`operator ${number} crashes`);
            this.#takeOver(this.#startOperator(namespace));
          }),
      },
    });
  }
}
