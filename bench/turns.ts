/** The turns of one operator in a round. */
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type ApiServer, startApiServer } from './api-server.ts';
import { watchOthers } from './disturbance.ts';
import { EchoTemplate } from './etcd-copies.ts';
import { burst, connectWriters, eventsArrived, type Pace, steady, writers } from './load.ts';
import type { Measure } from './measurements.ts';
import type { Operator } from './operators.ts';
import { type PacePercent, type Paces, pacePercents } from './paces.ts';
import { type Plan, timeoutMsFor } from './plan.ts';
import { perEcho, readRequests, readWatches } from './requests.ts';
import type { Turn } from './results.ts';
import { endOf, RunningOperator, TurnError } from './running-operator.ts';
import { evenQuantiles, quantile } from './statistics.ts';
import { Stopwatch } from './stopwatch.ts';
import { cpuSeconds, type Memory, memoryMB, withPeakAnonymous } from './usage.ts';

/** The context of every turn of a run. */
export interface RunContext {
  readonly plan: Plan;
  /** For logs and API servers. */
  readonly folder: string;
  /** Aborts the run. */
  readonly signal: AbortSignal;
}

const burstPrefix = 'burst-';
const warmPrefix = 'warm-';
const pacePrefix = (percent: PacePercent): string => `pace${percent}-`;

/** The number of even steps of the saved quantiles of a burst's waits. */
const waitSteps = 200;

/** An operator with a stopwatch, on an API server that no other operator uses. */
class Trial {
  readonly #server: ApiServer;
  readonly #running: RunningOperator;
  readonly #stopwatch: Stopwatch;
  readonly #log: string;
  readonly #operator: Operator;
  readonly #context: RunContext;
  #created = 0;

  private constructor(
    operator: Operator,
    context: RunContext,
    parts: {
      readonly server: ApiServer;
      readonly running: RunningOperator;
      readonly stopwatch: Stopwatch;
      readonly log: string;
    },
  ) {
    this.#operator = operator;
    this.#context = context;
    this.#server = parts.server;
    this.#running = parts.running;
    this.#stopwatch = parts.stopwatch;
    this.#log = parts.log;
  }

  static async start(operator: Operator, server: ApiServer, context: RunContext): Promise<Trial> {
    const log = join(context.folder, `${operator.name}.log`);
    const running = await RunningOperator.start(operator, server, log);
    const stopwatch = await Stopwatch.start(server.client).catch(async (error: unknown) => {
      await running.stop();
      throw error;
    });
    return new Trial(operator, context, { server, running, stopwatch, log });
  }

  /** Waits until the operator and the new server have settled. @returns the operator's memory */
  async settle(): Promise<Memory> {
    await delay(this.#context.plan.settleMs, undefined, { signal: this.#context.signal });
    return memoryMB(this.#running.pid);
  }

  async burst(prefix: string, count: number) {
    const { client, pid } = this.#server;
    await connectWriters(client, writers);
    const before = { operator: await cpuSeconds(this.#running.pid), server: await cpuSeconds(pid) };
    const [, peakAnonymous] = await withPeakAnonymous(this.#running.pid, async () => {
      await burst(client, prefix, count, ({ metadata }) => this.#stopwatch.created(metadata.name));
      await this.#served(count);
    });
    const operator = (await cpuSeconds(this.#running.pid)) - before.operator;
    const server = (await cpuSeconds(pid)) - before.server;
    const waits = this.#stopwatch.waits(prefix);
    return {
      p50: quantile(waits, 0.5),
      p99: quantile(waits, 0.99),
      waits: evenQuantiles(waits, waitSteps),
      cpuPerEcho: (operator * 1000) / count,
      serverCpuPerEcho: (server * 1000) / count,
      peakMemory: (await memoryMB(this.#running.pid)).peak,
      peakAnonymous,
    };
  }

  async steady(prefix: string, { perSecond, count }: Pace) {
    // The wait begins when the creation was due. Otherwise a creation that the server delays would hide a wait.
    await steady(this.#server.client, prefix, { perSecond, count }, ({ metadata }, dueAtMs) =>
      this.#stopwatch.created(metadata.name, dueAtMs),
    );
    await this.#served(count);
    const waits = this.#stopwatch.waits(prefix);
    return { p50: quantile(waits, 0.5), p99: quantile(waits, 0.99) };
  }

  async stop(): Promise<void> {
    await this.#stopwatch.stop();
    await this.#running.stop();
  }

  /** Waits until `count` more Echos have their Job, status and Event. */
  async #served(count: number): Promise<void> {
    this.#created += count;
    const timeoutMs = timeoutMsFor(count);
    const late = AbortSignal.timeout(timeoutMs);
    const signal = AbortSignal.any([this.#context.signal, late]);
    try {
      await this.#stopwatch.served(this.#created, signal);
      await eventsArrived(this.#server.client, this.#created, signal);
    } catch (cause) {
      if (!late.aborted || this.#context.signal.aborted) throw cause;
      const { servedCount } = this.#stopwatch;
      const done = `${servedCount} of ${this.#created} Echos have a Job and a status, or Events are missing`;
      throw new TurnError(`${this.#operator.name}: after ${timeoutMs} ms ${done}${await endOf(this.#log)}`, { cause });
    }
  }
}

/** Every operator watches Echos and Jobs. It starts more watches only if the server ends one. */
const firstWatches = 2;

/** Runs `work` with an operator on a fresh API server. @returns its result, and functions that read the audit log */
async function onFreshServer<T>(operator: Operator, context: RunContext, work: (trial: Trial) => Promise<T>) {
  const server = await startApiServer(context.folder);
  const requests = (prefix: string) => readRequests(server.auditLog, prefix);
  const resumedWatches = async () => (await readWatches(server.auditLog)) - firstWatches;
  try {
    const trial = await Trial.start(operator, server, context);
    try {
      const idle = await trial.settle();
      const others = await watchOthers();
      const result = await work(trial);
      return { result, idle, disturbance: await others(), requests, resumedWatches };
    } finally {
      await trial.stop();
    }
  } finally {
    // The audit log is complete when the server has stopped.
    await server.stop();
  }
}

/**
 * Measures an idle operator, two bursts, and even paces on a fresh API server. The second burst is for a warm operator:
 * its code has been compiled.
 *
 * @param paces Echos per second of each pace
 */
export async function loadTurn(operator: Operator, paces: Paces, context: RunContext): Promise<Turn> {
  const { plan } = context;
  const wanted = pacePercents.flatMap((percent) => {
    const perSecond = paces[percent];
    return perSecond === undefined ? [] : [{ percent, perSecond, count: Math.round(perSecond * plan.paceSeconds) }];
  });
  const figures: Partial<Record<Measure, number>> = {};
  const { result, idle, disturbance, requests, resumedWatches } = await onFreshServer(
    operator,
    context,
    async (trial) => {
      const burst = await trial.burst(burstPrefix, plan.burst);
      const warm = await trial.burst(warmPrefix, plan.burst);
      for (const { percent, ...pace } of wanted) {
        const { p50, p99 } = await trial.steady(pacePrefix(percent), pace);
        figures[`pace${percent}P50`] = p50;
        figures[`pace${percent}P99`] = p99;
      }
      return { burst, warm };
    },
  );
  const inBurst = await requests(burstPrefix);
  const inWarm = await requests(warmPrefix);
  const counted: Record<string, string> = {
    burst: perEcho(inBurst, plan.burst),
    'second burst': perEcho(inWarm, plan.burst),
  };
  for (const { percent, count } of wanted) {
    counted[`at ${percent} %`] = perEcho(await requests(pacePrefix(percent)), count);
  }
  return {
    figures: {
      echosPerSecond: plan.burst / inBurst.seconds,
      burstP50: result.burst.p50,
      burstP99: result.burst.p99,
      cpuPerEcho: result.burst.cpuPerEcho,
      serverCpuPerEcho: result.burst.serverCpuPerEcho,
      peakMemory: result.burst.peakMemory,
      peakAnonymous: result.burst.peakAnonymous,
      warmEchosPerSecond: plan.burst / inWarm.seconds,
      warmCpuPerEcho: result.warm.cpuPerEcho,
      warmServerCpuPerEcho: result.warm.serverCpuPerEcho,
      idleMemory: idle.resident,
      idleAnonymous: idle.anonymous,
      resumedWatches: await resumedWatches(),
      ...figures,
    },
    disturbance,
    requests: counted,
    waits: result.burst.waits,
  };
}

/** Measures the long burst on a fresh API server. */
export async function longBurstTurn(operator: Operator, context: RunContext): Promise<Turn> {
  const count = context.plan.longBurst;
  const { result, disturbance, requests, resumedWatches } = await onFreshServer(operator, context, (trial) =>
    trial.burst(burstPrefix, count),
  );
  const counted = await requests(burstPrefix);
  return {
    figures: {
      longEchosPerSecond: count / counted.seconds,
      longP50: result.p50,
      longP99: result.p99,
      longCpuPerEcho: result.cpuPerEcho,
      longServerCpuPerEcho: result.serverCpuPerEcho,
      longPeakMemory: result.peakMemory,
      longPeakAnonymous: result.peakAnonymous,
      longResumedWatches: await resumedWatches(),
    },
    disturbance,
    requests: { 'long burst': perEcho(counted, count) },
    waits: result.waits,
  };
}

/** Returns the Echos per second that the operator serves in a burst. */
export async function maximumRate(operator: Operator, context: RunContext): Promise<number> {
  const { burst: count } = context.plan;
  const { requests } = await onFreshServer(operator, context, (trial) => trial.burst(burstPrefix, count));
  return count / (await requests(burstPrefix)).seconds;
}

export const cachedPrefix = 'cached-';

/** A server with Echos that have their Jobs and statuses, so that operators only read. */
export class PopulatedServer {
  readonly server: ApiServer;
  readonly #template: EchoTemplate;
  /** The template is the first one. */
  #echos = 1;

  private constructor(server: ApiServer, template: EchoTemplate) {
    this.server = server;
    this.#template = template;
  }

  static async start({ folder }: RunContext): Promise<PopulatedServer> {
    const server = await startApiServer(folder);
    try {
      return new PopulatedServer(server, await EchoTemplate.create(server, `${cachedPrefix}template-`));
    } catch (error) {
      await server.stop();
      throw error;
    }
  }

  /** Creates more Echos with their Jobs, until there are so many objects. */
  async fill(objects: number): Promise<void> {
    console.error(`Creating Echos and Jobs until there are ${objects} objects`);
    await this.#template.copy(cachedPrefix, this.#echos, objects / 2);
    this.#echos = objects / 2;
  }
}

/**
 * Measures the time from start to sync, the memory with all objects cached, and the longest pause of our event loop, on
 * a populated server.
 */
export async function cacheTurn(operator: Operator, server: ApiServer, context: RunContext): Promise<Turn> {
  const { plan, folder, signal } = context;
  const log = join(folder, `cache-${operator.name}-${randomBytes(4).toString('hex')}.log`);
  const others = await watchOthers();
  const running = await RunningOperator.start(withPauses(operator), server, log);
  let figures: Turn['figures'];
  try {
    await delay(plan.settleMs, undefined, { signal });
    const { resident, anonymous } = await memoryMB(running.pid);
    figures = { start: running.startMs, cachedMemory: resident, cachedAnonymous: anonymous };
  } finally {
    await running.stop();
  }
  const disturbance = await others();
  const longestPause = /longest pause: ([\d.]+) ms/.exec(await readFile(log, 'utf8'))?.[1];
  return {
    figures: { ...figures, ...(longestPause !== undefined && { longestPause: Number(longestPause) }) },
    disturbance,
  };
}

/** Our operator prints its longest pause when it ends. The Go and Rust peers have no event loop. */
function withPauses(operator: Operator): Operator {
  const [program, ...args] = operator.command;
  if (program !== process.execPath) return operator;
  return { ...operator, command: [program, '--import', join(import.meta.dirname, 'longest-pause.ts'), ...args] };
}
