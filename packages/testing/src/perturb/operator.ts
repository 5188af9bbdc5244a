import { setTimeout as delay } from 'node:timers/promises';
import type { Operator } from '@echoperator/runtime';
import { type Gate, GateClosedError } from '@echoperator/runtime/client';
import { LeadershipLostError } from '@echoperator/runtime/leader-election';
import type { FaultProxy } from '../fault-proxy.ts';
import type { Scenario } from './scenario.ts';

/**
 * Closes external systems to an operator that has crashed or stopped: it still runs in this process, and only its
 * requests to the API server are cut.
 */
class OperatorGate implements Gate {
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

/** Short, but a busy machine must not lose a Lease. */
export const leaseTimings = { leaseDurationSeconds: 12, renewDeadlineSeconds: 9, retryPeriodSeconds: 0.5 };

/** How long a request to another system takes to its proxy, which is in the same process. */
export const maxTransitMs = 250;

/** The version of an object in a cache. */
export interface ObservedVersion {
  readonly kind: string;
  readonly resourceVersion: string;
  /** Whether it is of a kind of the scenario. */
  readonly isListed: boolean;
}

/** An operator in this process, behind its own proxy. */
export class RunningOperator {
  /** Counts the operators of a run, from 1. */
  readonly number: number;
  readonly proxy: FaultProxy;
  /** The versions of the objects in the operator's caches, by uid. */
  readonly observed: Map<string, ObservedVersion> = new Map();
  /** How many requests the API server has not answered, apart from watches. */
  inFlight = 0;
  /** Nothing reaches the API server for now. */
  isCutOff = false;
  hasCrashed = false;
  /** See {@link ExternalHooks.gate}. */
  readonly gate: Gate;
  /** Without leader election. */
  readonly #crashGate: OperatorGate | undefined;
  readonly #operator: Operator;
  readonly #stop = new AbortController();
  #close: (() => Promise<void>) | undefined;
  #gateClosedAtMs = Number.POSITIVE_INFINITY;
  #running: Promise<void> = Promise.resolve();
  #failure: unknown;
  #stopped: Promise<void> | undefined;

  constructor(number: number, operator: Operator, proxy: FaultProxy) {
    this.number = number;
    this.proxy = proxy;
    this.#crashGate = operator.elector === undefined ? new OperatorGate() : undefined;
    this.gate = operator.elector?.fence ?? this.#crashGate ?? new OperatorGate();
    this.gate.signal.addEventListener('abort', () => {
      this.#gateClosedAtMs = performance.now();
    });
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

  /** Resolves when the caches have synced. @throws Error if it does not lead yet, with leader election */
  async ready(): Promise<void> {
    await Promise.race([this.#operator.manager.synced, this.#running]);
    const { elector } = this.#operator;
    if (elector !== undefined && !elector.isLeading) throw new Error(`operator ${this.number} does not lead`);
  }

  gateClosedBefore(timeMs: number): boolean {
    return timeMs > this.#gateClosedAtMs;
  }

  /** For the API server, the process has ended. */
  crashed(): void {
    this.hasCrashed = true;
    this.#crashGate?.close('crashed');
  }

  /** Waits until the Lease is lost. @throws Error if it is not lost in time, or the operator ends in another way */
  async loseLease(withinMs: number): Promise<void> {
    await Promise.race([this.#running, delay(withinMs, undefined, { ref: false })]);
    if (!(this.#failure instanceof LeadershipLostError)) {
      throw new Error('a leader that was cut off did not lose its Lease', { cause: this.#failure });
    }
    this.#failure = undefined;
  }

  /** Whether no key is queued or being reconciled, and all Events are written. */
  async isIdle(): Promise<boolean> {
    if (this.#operator.events.waiting > 0) return false;
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
    const metric = await this.#operator.metrics.registry.getSingleMetric(name)?.get();
    if (metric === undefined) throw new Error(`the operator has no metric ${name}`);
    return metric.values.reduce((sum, { value }) => sum + value, 0);
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stopOnce();
    return this.#stopped;
  }

  async #stopOnce(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    // What the operator still sends to other systems is too late.
    this.#crashGate?.close('stopped');
    try {
      await this.#close?.();
    } finally {
      await this.proxy.close();
    }
  }
}
