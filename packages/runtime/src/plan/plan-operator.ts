import { AsyncLocalStorage } from 'node:async_hooks';
import { Registry } from 'prom-client';
import { Applier } from '../apply/applier.ts';
import type { Client } from '../client/client.ts';
import { connect } from '../client/connect.ts';
import type { Connection } from '../client/connection.ts';
import { dryRunConnection } from '../client/dry-run.ts';
import { summarizeError } from '../client/error-summary.ts';
import type { Gate } from '../client/gate.ts';
import { HttpClient } from '../client/http-client.ts';
import { Transport } from '../client/transport.ts';
import type { AddOptions, DefinedController } from '../controller/define-controller.ts';
import { passes } from '../controller/predicate.ts';
import { isTerminal, type Result } from '../controller/result.ts';
import { resourceName } from '../kind/kind.ts';
import { type KubeObject, keyOf, keyString } from '../kind/object.ts';
import type { Manager } from '../manager/manager.ts';
import { EventRecorder } from '../observability/event-recorder.ts';
import { Metrics } from '../observability/metrics.ts';
import type { ConnectOptions } from '../process/connect-operator.ts';
import { TokenBucket } from '../queue/token-bucket.ts';
import type { Logger } from '../shared/logger.ts';
import { pause } from '../shared/pause.ts';
import { PausableTimeLimit } from './pausable-time-limit.ts';
import { isSelected, type Plan, type PlannedObject, type PlanSelection } from './plan.ts';
import { PlanError } from './plan-error.ts';
import { PlanManager, type PlannedController } from './plan-manager.ts';
import {
  isStaleCache,
  PlanEndError,
  PlannedCallError,
  PlannedReconcile,
  readyOf,
  UnansweredError,
} from './planned-reconcile.ts';
import { excerpt } from './shown-fields.ts';

/** Options of {@link planOperator}. */
export interface PlanOptions
  extends Pick<
      ConnectOptions,
      'name' | 'environment' | 'log' | 'kubeconfigPath' | 'connection' | 'userAgent' | 'cacheSyncTimeoutMs'
    >,
    Omit<AddOptions, 'namespaces' | 'workers'> {
  /** The controllers to plan, as for `runOperator`. */
  readonly controllers?: readonly DefinedController[];
  /** The namespaces that the controllers watch. Default: all. */
  readonly namespaces?: readonly string[] | undefined;
  /** Which objects to reconcile. The caches hold all. Default: all. */
  readonly select?: PlanSelection;
  /** The most requests per second, besides lists and watches. Default 200. Infinity: no limit. */
  readonly requestsPerSecond?: number;
  /** How many objects are reconciled concurrently. Default 16. */
  readonly workers?: number;
  /** Ends the plan, which then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** The parts of an operator to which controllers are added for a plan. An `Operator` has them too. */
export interface PlannedOperator {
  /** Each write of its clients is a dry run. */
  readonly connection: Connection;
  /** Each of its writes is a dry run. */
  readonly client: Client;
  readonly metrics: Metrics;
  /** Records nothing. */
  readonly events: EventRecorder;
  /** Its fence lets no call of an external system pass. */
  readonly elector: { readonly fence: Gate } | undefined;
  readonly applier: Applier;
  /** Fills its caches, and runs no controller. */
  readonly manager: Manager;
}

/** Default of `requestsPerSecond`. */
const defaultRequestsPerSecond = 200;
/** Default of `reconcileTimeoutMs`. A dry run that takes longer tells nothing more. */
const defaultReconcileTimeoutMs = 60_000;
/** The most characters of a text about an object. */
const maxTextLength = 1000;
/** How often a plan looks whether its caches can be filled. */
const cacheCheckMs = 200;
/** How long the lists of a kind may fail before the plan fails. */
const defaultCacheSyncTimeoutMs = 30_000;
/** How often the plan of an object begins again because the cache was stale, and after which pause. */
const staleCache = { attempts: 4, pauseMs: 250 } as const;
/** The same for a request without an answer. A webhook that is down must not multiply the time of the plan. */
const unanswered = { attempts: 2, pauseMs: 1000 } as const;

/** Events would report what has not happened. */
class SilentEventRecorder extends EventRecorder {
  override record(): void {}
}

/**
 * Plans what the first reconcile of each object would do: runs the controllers over the live cluster, and sends every
 * write as a dry run. For example with the next version of an operator, before it is installed.
 *
 * **Guarantees**
 * - Nothing is stored: the transport makes every write a dry run (`dryRun=All`), also of clients that controllers
 *   create from the operator's connection. Events are not sent, and no Lease is needed.
 * - The plan has each write of an object's first reconcile up to its first wait, against the cluster as it is. Each
 *   reconcile sees the results of its own dry runs, and of no other object's.
 * - The gate of the controllers, which is the fence of `elector`, lets nothing pass. So a call of an external system is
 *   reported, and ends the plan of the object.
 * - If a dry run cannot follow a reconcile, the plan of the object ends, and says why.
 *
 * **Assumptions**
 * - The controllers write to the cluster only with the clients that they get, and pass the gate before each external
 *   call. Nothing else stops a connection that a controller opens itself.
 *
 * **Caveats**
 * - What follows a wait is not planned: later steps, reactions of other controllers, keys of sources. Quotas count each
 *   write for itself. A schema or rules that are not installed yet do not apply.
 *
 * @param setUp adds what no definition can express, as for `runOperator`.
 * @throws ConnectionError if no API server is configured; CacheSyncError for a missing permission; PlanError if the API
 *   server does not list a kind for `cacheSyncTimeoutMs`, by default 30 s; the errors of `setUp` and of the
 *   controllers' `setUp`; the signal's reason.
 *
 * @example
 * const plan = await planOperator({ name: 'greeter', environment: process.env, log: pino(), controllers: [greetings] });
 * console.log(formatPlan(plan));
 */
export async function planOperator(
  options: PlanOptions,
  setUp: (operator: PlannedOperator) => void | Promise<void> = () => {},
): Promise<Plan> {
  const startedAtMs = performance.now();
  const { name, environment, kubeconfigPath, userAgent = name, controllers = [] } = options;
  const given = options.connection ?? (await connect({ environment: required(environment), kubeconfigPath }));
  const connection = dryRunConnection(given);
  const transport = new Transport(connection, { userAgent });
  const stop = new AbortController();
  const { signal: outer = stop.signal } = options;
  try {
    const planner = new Planner(options, connection, new HttpClient(transport, name));
    for (const controller of controllers) controller.add(planner.operator, addOptionsOf(options));
    await setUp(planner.operator);
    const running = planner.manager.run(stop.signal);
    const failed = running.then(() => new Promise<never>(() => {}));
    try {
      const objects = await untilAborted(Promise.race([planner.plan(outer), failed]), outer);
      return { reconciled: planner.reconciled, seconds: (performance.now() - startedAtMs) / 1000, objects };
    } finally {
      stop.abort();
      await running.catch(() => {});
    }
  } finally {
    stop.abort();
    await transport.close();
  }
}

/** Settles as the promise, or rejects with the signal's reason if that is aborted first. */
async function untilAborted<T>(running: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) abort();
  try {
    return await Promise.race([running, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** The workers of a plan are not those of its controllers. */
const addOptionsOf = ({ workers: _, ...options }: PlanOptions): AddOptions => options;

function required(environment: NodeJS.ProcessEnv | undefined): NodeJS.ProcessEnv {
  if (environment !== undefined) return environment;
  throw new TypeError('planOperator needs a connection or an environment: pass `environment: process.env`');
}

/** One call of {@link planOperator}. */
class Planner {
  readonly operator: PlannedOperator;
  readonly manager: PlanManager;
  reconciled = 0;
  readonly #options: PlanOptions;
  readonly #client: Client;
  readonly #log: Logger;
  readonly #bucket: TokenBucket;
  readonly #cacheSyncTimeoutMs: number;
  readonly #current = new AsyncLocalStorage<PlannedReconcile>();

  constructor(options: PlanOptions, connection: Connection, client: Client) {
    const { name, requestsPerSecond: perSecond = defaultRequestsPerSecond } = options;
    const { cacheSyncTimeoutMs = defaultCacheSyncTimeoutMs } = options;
    this.#cacheSyncTimeoutMs = cacheSyncTimeoutMs;
    this.#options = options;
    this.#client = client;
    this.#log = onlyProblems(options.log);
    this.#bucket = new TokenBucket({ perSecond, burst: Math.max(1, perSecond / 10), maxWaitMs: Infinity });
    const metrics = new Metrics(new Registry());
    this.manager = new PlanManager({ client, log: this.#log, metrics, cacheSyncTimeoutMs }, () =>
      this.#current.getStore(),
    );
    const events = new SilentEventRecorder({ client, controller: name, instance: name, log: this.#log });
    const elector = { fence: this.#closedGate() };
    const applier = new Applier({ fieldManager: name });
    this.operator = { connection, client, metrics, events, elector, applier, manager: this.manager };
  }

  async plan(signal: AbortSignal): Promise<readonly PlannedObject[]> {
    const { manager } = this;
    await this.#waitForCaches(signal);
    await using states = new AsyncDisposableStack();
    const { select = {} } = this.#options;
    const objects: PlannedObject[] = [];
    for (const controller of manager.controllers) {
      if (!isSelected(select, controller.kind)) continue;
      const state = await controller.options.setUp?.(signal);
      if (state !== undefined) states.use(state);
      // Not by a spread, which fails for a hundred thousand objects.
      for (const object of await this.#planAll(controller, signal)) objects.push(object);
    }
    return objects;
  }

  /** The manager waits for a kind that is not served, and for an API server that is down, as long as it takes. */
  async #waitForCaches(signal: AbortSignal): Promise<void> {
    const { manager } = this;
    // The manager does not wait for each cache, but a plan needs all.
    const synced = manager.synced.then(() => Promise.all(manager.inspect().informers.map((each) => each.synced)));
    const ended = new AbortController();
    const stop = AbortSignal.any([signal, ended.signal]);
    const failed = async (): Promise<void> => {
      while (!stop.aborted) {
        await pause(cacheCheckMs, stop);
        const failing = manager
          .inspect()
          .informers.filter((each) => !each.hasSynced && each.failingForMs() >= this.#cacheSyncTimeoutMs);
        if (failing.length > 0 && !stop.aborted) throw cachesError(failing, this.#cacheSyncTimeoutMs);
      }
    };
    try {
      await Promise.race([synced, failed()]);
    } finally {
      ended.abort();
    }
  }

  async #planAll(controller: PlannedController, signal: AbortSignal): Promise<readonly PlannedObject[]> {
    const { workers = 16, select: { namespaces } = {} } = this.#options;
    const { predicate } = controller.options;
    const waiting = controller.store
      .list()
      .filter(({ metadata: { namespace } }) => namespaces?.includes(namespace ?? '') !== false)
      .filter((object) => passes(predicate, { type: 'added', object }))
      .sort((one, other) => (keyString(one.metadata) < keyString(other.metadata) ? -1 : 1));
    const planned: (PlannedObject | undefined)[] = [];
    let next = 0;
    const work = async (): Promise<void> => {
      for (let index = next++; index < waiting.length && !signal.aborted; index = next++) {
        const object = waiting[index];
        if (object !== undefined) planned[index] = await this.#planObject(controller, object, signal);
      }
    };
    await Promise.all(Array.from({ length: workers }, work));
    signal.throwIfAborted();
    this.reconciled += waiting.length;
    return planned.filter((each) => each !== undefined);
  }

  async #planObject(
    controller: PlannedController,
    { metadata }: KubeObject,
    signal: AbortSignal,
  ): Promise<PlannedObject | undefined> {
    for (let attempt = 1; ; attempt += 1) {
      using limit = timeLimitOf(controller);
      const reconcile = this.#newReconcile(limit, signal);
      const ended = await this.#run(controller, metadata, reconcile);
      const retry = retryOf(reconcile, ended);
      if (retry !== undefined && attempt < retry.attempts) {
        await pause(retry.pauseMs, signal);
        continue;
      }
      const isComplete = ended.error === undefined && reconcile.end === undefined;
      if (isComplete && reconcile.deletes) {
        reconcile.probe();
        await this.#run(controller, metadata, reconcile);
      }
      return this.#report(controller, metadata, reconcile, ended);
    }
  }

  #newReconcile(limit: PausableTimeLimit, signal: AbortSignal): PlannedReconcile {
    return new PlannedReconcile({
      client: this.#client,
      throttle: (limited) => limit.excluding(() => this.#throttle(limited)),
      signal: AbortSignal.any([signal, limit.signal]),
      cached: (kind, key) =>
        this.manager
          .inspect()
          .informers.find((each) => each.kind === kind)
          ?.store.get(key),
    });
  }

  /** Runs the code of a controller once. */
  async #run(
    { name, options }: PlannedController,
    metadata: KubeObject['metadata'],
    reconcile: PlannedReconcile,
  ): Promise<Ended> {
    const { signal } = reconcile;
    const key = keyOf({ metadata });
    const client = this.#client.scoped({ signal, hook: reconcile.request });
    const log = this.#log.child({ controller: name, object: keyString(key) });
    // A reconcile may not end with its signal. It sends nothing more then.
    try {
      signal.throwIfAborted();
      const running = this.#current.run(reconcile, () => options.reconcile(key, { client, signal, log }));
      return { result: await untilAborted(running, signal) };
    } catch (error) {
      return { error };
    }
  }

  #report(
    { name, kind, store }: PlannedController,
    metadata: KubeObject['metadata'],
    reconcile: PlannedReconcile,
    { result, error }: Ended,
  ): PlannedObject | undefined {
    const call = reconcile.end instanceof PlannedCallError ? reconcile.end : callIn(error);
    // A reconcile that has not ended may still record writes.
    const writes = [...reconcile.writes];
    const incomplete = call === undefined ? whyIncomplete(reconcile, error) : undefined;
    if (writes.length === 0 && call === undefined && incomplete === undefined) return undefined;
    const object = this.#current.run(reconcile, () => store.get(keyOf({ metadata })));
    const waitsFor = call === undefined && incomplete === undefined ? waitOf(object, result) : undefined;
    const shown = (text: string) => excerpt(reconcile.secrets.hideIn(text), maxTextLength);
    return {
      controller: name,
      kind: kind.kind,
      ...keyOf({ metadata }),
      writes,
      ...(call !== undefined && { externalCall: shown(call.call) }),
      ...(incomplete !== undefined && { incomplete: shown(incomplete) }),
      ...(waitsFor !== undefined && { waitsFor: shown(waitsFor) }),
    };
  }

  async #throttle(signal: AbortSignal): Promise<void> {
    const waitMs = this.#bucket.take();
    if (waitMs > 0) await pause(waitMs, signal);
    signal.throwIfAborted();
  }

  #closedGate(): Gate {
    return {
      pass: (call = 'a call that the controller does not describe') => {
        const error = new PlannedCallError(call);
        this.#current.getStore()?.attempted(error);
        throw error;
      },
      // Never aborted: a driver would take that for the end of the process.
      signal: new AbortController().signal,
    };
  }
}

/** How a reconcile has ended: with its result or with an error. */
interface Ended {
  readonly result?: Result;
  readonly error?: unknown;
}

/** The external call that an error reports. A batch of calls fails with the error of another reconcile. */
function callIn(error: unknown): PlannedCallError | undefined {
  for (let each = error; each instanceof Error; each = each.cause) if (each instanceof PlannedCallError) return each;
  return undefined;
}

/** How often a plan of an object that ended so begins again. Undefined: the plan stays as it is. */
function retryOf({ end }: PlannedReconcile, { error }: Ended): typeof staleCache | typeof unanswered | undefined {
  if (end instanceof UnansweredError) return unanswered;
  return isStaleCache(error) ? staleCache : undefined;
}

const timeLimitOf = ({ options: { reconcileTimeoutMs } }: PlannedController): PausableTimeLimit =>
  new PausableTimeLimit(Math.min(reconcileTimeoutMs ?? Infinity, defaultReconcileTimeoutMs));

function cachesError(informers: ReturnType<Manager['inspect']>['informers'], forMs: number): PlanError {
  const names = [...new Set(informers.map(({ kind }) => resourceName(kind)))].join(', ');
  return new PlanError(
    `the API server has not listed ${names} for ${Math.round(forMs / 1000)} s: apply their ` +
      'CustomResourceDefinitions first, and check the rights and the connection. The log has each error',
  );
}

function whyIncomplete({ end, signal }: PlannedReconcile, error: unknown): string | undefined {
  if (end !== undefined) return end.message;
  if (error === undefined) return undefined;
  if (error instanceof PlanEndError) return error.message;
  if (signal.aborted) return 'the reconcile did not end in time';
  const problem = isTerminal(error) && error instanceof Error ? error.message : summarizeError(error);
  return `the reconcile failed: ${problem}`;
}

/** What an object waits for after a reconcile. The text comes from its status, which its users may read. */
function waitOf(object: KubeObject | undefined, result: Result | undefined): string | undefined {
  const ready = readyOf(object);
  if (ready?.status === 'True') return undefined;
  const state = ready === undefined ? undefined : `${ready.reason}: ${ready.message}`;
  const delay = result?.type === 'requeueAfter' ? `${Math.ceil(result.delayMs / 1000)} s` : undefined;
  return [state, delay].filter((part) => part !== undefined).join('; ') || undefined;
}

/** Nothing that a reconcile does is done, so its other lines would be wrong. */
function onlyProblems(log: Logger): Logger {
  const debug = log.debug.bind(log);
  return {
    debug,
    info: debug,
    warn: log.warn.bind(log),
    error: log.error.bind(log),
    child: (bindings) => onlyProblems(log.child(bindings)),
  };
}
