import { type Gate, GateClosedError } from '../client/index.ts';
import type { Operator } from '../process/connect-operator.ts';
import type { FaultProxy } from './fault-proxy.ts';
import type { Scenario } from './perturbation-scenario.ts';

/** Keeps an operator that has crashed for the API server, or has stopped, from other systems: it still runs in this process. */
export class OperatorGate implements Gate {
  readonly #closed = new AbortController();

  get signal(): AbortSignal {
    return this.#closed.signal;
  }

  pass(): void {
    if (this.signal.aborted) throw this.signal.reason;
  }

  close(reason: string): void {
    this.#closed.abort(new GateClosedError(`the operator has ${reason}`));
  }
}

/** An operator in this process, behind its own proxy. */
export class RunningOperator {
  /** Counts the operators of a run, from 1. */
  readonly number: number;
  readonly proxy: FaultProxy;
  readonly gate: OperatorGate;
  readonly #operator: Operator;
  readonly #stop = new AbortController();
  #close: (() => Promise<void>) | undefined;
  #running: Promise<void> = Promise.resolve();
  #failure: unknown;
  #stopped: Promise<void> | undefined;

  constructor(number: number, operator: Operator, proxy: FaultProxy, gate: OperatorGate) {
    this.number = number;
    this.proxy = proxy;
    this.gate = gate;
    this.#operator = operator;
  }

  /** @param controllers resolves when the controllers have been added, to a function that closes their connections */
  async start(controllers: ReturnType<Scenario['addControllers']>): Promise<void> {
    const close = await controllers;
    this.#close = close ?? undefined;
    this.#running = this.#operator.run(this.#stop.signal).catch((error: unknown) => {
      this.#failure = error;
    });
  }

  /** Resolves when the caches have synced. */
  async ready(): Promise<void> {
    await Promise.race([this.#operator.manager.synced, this.#running]);
  }

  /** Whether no key is queued or being reconciled. */
  async isIdle(): Promise<boolean> {
    const sums = await Promise.all(
      ['workqueue_depth', 'controller_runtime_active_workers'].map((name) => this.#sum(name)),
    );
    return sums.every((sum) => sum === 0);
  }

  /** @throws Error if the operator has ended by itself or panicked */
  async checkHealth(): Promise<void> {
    if (this.#failure !== undefined) throw new Error('the operator failed', { cause: this.#failure });
    if ((await this.#sum('controller_runtime_reconcile_panics_total')) > 0) throw new Error('a reconcile panicked');
  }

  /** The sum of a metric over all controllers. */
  async #sum(name: string): Promise<number> {
    const metrics = await this.#operator.metrics.registry.metrics();
    const lines = metrics.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, 'gm'));
    return [...lines].reduce((sum, [, value]) => sum + Number(value), 0);
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stopOnce();
    return this.#stopped;
  }

  async #stopOnce(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    // What the operator still sends to other systems is too late.
    this.gate.close('stopped');
    try {
      await this.#close?.();
    } finally {
      await this.proxy.close();
    }
  }
}
