/** A turn: what one operator does in one round. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type ApiServer, startApiServer } from './api-server.ts';
import { burst, connectWriters, eventsArrived, populate, steady } from './load.ts';
import type { Figures } from './measurements.ts';
import type { Operator } from './operators.ts';
import { type Plan, turnTimeoutMs } from './plan.ts';
import { perEcho, readRequests } from './requests.ts';
import { RunningOperator } from './running-operator.ts';
import { quantile } from './statistics.ts';
import { Stopwatch } from './stopwatch.ts';
import { cpuSeconds, memoryMB } from './usage.ts';

/** A program at rest still has its start's garbage; after this long it is as idle as it gets in a bench. */
const settleMs = 5000;

const burstPrefix = 'burst-';
const steadyPrefix = 'steady-';

export interface LoadTurn {
  readonly figures: Figures;
  /** Requests an Echo by verb: where they differ within a round, the round is void. */
  readonly requests: string;
}

/** An operator did not do its work in time. The message has the last lines of its log. */
export class TurnError extends Error {
  override readonly name = 'TurnError';
}

/** Idle, then the burst, then the steady pace, on a fresh API server. */
export async function loadTurn(
  operator: Operator,
  plan: Plan,
  folder: string,
  interrupted: AbortSignal,
): Promise<LoadTurn> {
  const server = await startApiServer(folder);
  let measured: { readonly figures: Figures; readonly echos: number };
  try {
    measured = await measureLoad(operator, plan, server, folder, interrupted);
  } finally {
    await server.stop();
  }
  const inBurst = await readRequests(server.auditLog, burstPrefix);
  const inSteady = await readRequests(server.auditLog, steadyPrefix);
  return {
    figures: { ...measured.figures, echosPerSecond: plan.burst / inBurst.seconds },
    requests: `burst: ${perEcho(inBurst, plan.burst)}; 50/s: ${perEcho(inSteady, measured.echos - plan.burst)}`,
  };
}

async function measureLoad(
  operator: Operator,
  plan: Plan,
  server: ApiServer,
  folder: string,
  interrupted: AbortSignal,
): Promise<{ readonly figures: Figures; readonly echos: number }> {
  const { client } = server;
  const log = join(folder, `${operator.name}.log`);
  const running = await RunningOperator.start(operator, server, log);
  const stopwatch = await Stopwatch.start(client);
  const created = (name: string): void => stopwatch.created(name);
  const served = async (count: number): Promise<void> => {
    const timeoutMs = turnTimeoutMs(plan);
    const late = AbortSignal.timeout(timeoutMs);
    const signal = AbortSignal.any([interrupted, late]);
    try {
      await stopwatch.served(count, signal);
      await eventsArrived(client, count, signal);
    } catch (cause) {
      if (!late.aborted || interrupted.aborted) throw cause;
      const tail = (await readFile(log, 'utf8')).trimEnd().split('\n').slice(-10);
      const done = `${stopwatch.servedCount} of ${count} Echos have a Job and a status, or Events are missing`;
      throw new TurnError(
        [`${operator.name}: after ${timeoutMs} ms ${done}. Its log ends with:`, ...tail].join('\n  '),
        { cause },
      );
    }
  };
  try {
    await delay(settleMs, undefined, { signal: interrupted });
    const idle = await memoryMB(running.pid);
    await connectWriters(client);

    const cpu = { operator: await cpuSeconds(running.pid), server: await cpuSeconds(server.pid) };
    await burst(client, burstPrefix, plan.burst, created);
    await served(plan.burst);
    const operatorCpu = (await cpuSeconds(running.pid)) - cpu.operator;
    const serverCpu = (await cpuSeconds(server.pid)) - cpu.server;
    const { peak } = await memoryMB(running.pid);
    const burstWaits = stopwatch.waits(burstPrefix);

    const pace = { perSecond: 50, seconds: plan.steadySeconds };
    const echos = plan.burst + pace.perSecond * pace.seconds;
    await steady(client, steadyPrefix, pace, created);
    await served(echos);
    const steadyWaits = stopwatch.waits(steadyPrefix);
    const figures = {
      idleMemory: idle.now,
      burstP50: quantile(burstWaits, 0.5),
      burstP99: quantile(burstWaits, 0.99),
      cpuPerEcho: (operatorCpu * 1000) / plan.burst,
      serverCpuPerEcho: (serverCpu * 1000) / plan.burst,
      peakMemory: peak,
      steadyP50: quantile(steadyWaits, 0.5),
      steadyP99: quantile(steadyWaits, 0.99),
    };
    return { figures, echos };
  } finally {
    await stopwatch.stop();
    await running.stop();
  }
}

/** A server that has Echos with their Jobs and statuses: operators only read there. */
export async function populatedServer(plan: Plan, folder: string): Promise<ApiServer> {
  const server = await startApiServer(folder);
  try {
    await populate(server.client, 'cached-', plan.cached);
    return server;
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** Start to synced and the memory with everything cached, on a server that has been populated. */
export async function cacheTurn(
  operator: Operator,
  server: ApiServer,
  folder: string,
  interrupted: AbortSignal,
): Promise<Figures> {
  const running = await RunningOperator.start(operator, server, join(folder, `${operator.name}.log`));
  try {
    await delay(settleMs, undefined, { signal: interrupted });
    return { start: running.startMs, cachedMemory: (await memoryMB(running.pid)).now };
  } finally {
    await running.stop();
  }
}
