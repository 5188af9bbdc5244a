/**
 * Our operator with and without its flight recorder, at the same time and on one API server, each with a namespace of
 * its own. What slows one down slows down the other, so that their ratio varies less than in turns.
 */
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Namespace } from '@echoperator/runtime/kinds';
import { forEachConcurrently } from '../packages/testing/src/for-each-concurrently.ts';
import { Echo } from '../src/kinds/echo/kind.ts';
import { type ApiServer, startApiServer } from './api-server.ts';
import { watchOthers } from './disturbance.ts';
import { connectWriters, echoNamed, eventsArrived, writers } from './load.ts';
import type { Operator } from './operators.ts';
import { timeoutMsFor } from './plan.ts';
import type { Turn } from './results.ts';
import { endOf, RunningOperator, TurnError } from './running-operator.ts';
import type { RunContext } from './turns.ts';
import { cpuSeconds, withPeakAnonymous } from './usage.ts';

export type Pair<T> = readonly [T, T];

const namespaces = ['left', 'right'] as const;

/** The bursts after the first, for operators whose code has been compiled. */
export const warmBursts = 3;

/**
 * Measures two operators at once, with bursts whose Echos alternate between their namespaces.
 *
 * @param round decides which one starts first and which namespace it has, so that neither is favoured
 */
export async function sideBySideTurns(
  operators: Pair<Operator>,
  round: number,
  context: RunContext,
): Promise<Pair<Turn>> {
  const { folder, plan, signal } = context;
  const server = await startApiServer(folder);
  try {
    for (const name of namespaces) await server.client.create(Namespace, { metadata: { name } });
    const running = await startBoth(operators, round, server, folder);
    try {
      await delay(plan.settleMs, undefined, { signal });
      await connectWriters(server.client, writers);
      const others = await watchOthers();
      const figures = await measured(running, server, operators, context);
      const disturbance = await others();
      return [
        { figures: figures[0], disturbance },
        { figures: figures[1], disturbance },
      ];
    } finally {
      for (const each of running) await each.stop();
    }
  } finally {
    await server.stop();
  }
}

const logOf = (folder: string, { name }: Operator): string => join(folder, `beside-${name}.log`);

async function startBoth(
  [one, other]: Pair<Operator>,
  round: number,
  server: ApiServer,
  folder: string,
): Promise<Pair<RunningOperator>> {
  const [even, odd] = namespaces;
  const [left, right] = round % 2 === 0 ? [even, odd] : [odd, even];
  const start = (operator: Operator, namespace: string): Promise<RunningOperator> =>
    RunningOperator.start(operator, server, logOf(folder, operator), {
      environment: { WATCH_NAMESPACES: namespace, HA_LEASE_LOCK_NAME: `beside-${operator.name}` },
    });
  if (round % 4 < 2) {
    const first = await start(one, left);
    return [first, await orStop(first, start(other, right))];
  }
  const first = await start(other, right);
  return [await orStop(first, start(one, left)), first];
}

async function orStop(first: RunningOperator, starting: Promise<RunningOperator>): Promise<RunningOperator> {
  return starting.catch(async (error: unknown) => {
    await first.stop();
    throw error;
  });
}

async function measured(
  [one, other]: Pair<RunningOperator>,
  server: ApiServer,
  operators: Pair<Operator>,
  context: RunContext,
): Promise<Pair<Turn['figures']>> {
  const count = context.plan.besideBurst;
  const cpu = () => Promise.all([cpuSeconds(one.pid), cpuSeconds(other.pid)] as const);
  const before = await cpu();
  const [[afterFirst, peakOfOther], peakOfOne] = await withPeakAnonymous(one.pid, () =>
    withPeakAnonymous(other.pid, async () => {
      await burst(0, server, operators, context);
      const first = await cpu();
      for (let n = 1; n <= warmBursts; n += 1) await burst(n, server, operators, context);
      return first;
    }),
  );
  const atEnd = await cpu();
  const figuresOf = (index: 0 | 1, peak: number): Turn['figures'] => ({
    besideCpuPerEcho: ((afterFirst[index] - before[index]) * 1000) / count,
    besideWarmCpuPerEcho: ((atEnd[index] - afterFirst[index]) * 1000) / (warmBursts * count),
    besidePeakAnonymous: peak,
  });
  return [figuresOf(0, peakOfOne), figuresOf(1, peakOfOther)];
}

/** Creates as many Echos in each namespace, and waits until all have a status and their Events. */
async function burst(
  number: number,
  { client }: ApiServer,
  operators: Pair<Operator>,
  { plan, folder, signal: interrupted }: RunContext,
): Promise<void> {
  const count = plan.besideBurst;
  const late = AbortSignal.timeout(timeoutMsFor(2 * count));
  const signal = AbortSignal.any([interrupted, late]);
  const create = (index: number) =>
    client.create(Echo, echoNamed(`beside-${number}-${Math.floor(index / 2)}`, namespaces[index % 2]));
  await forEachConcurrently(Array(2 * count).keys(), create, writers);
  try {
    // The Event is an operator's last write for an Echo.
    for (const namespace of namespaces) await eventsArrived(client, (number + 1) * count, signal, namespace);
  } catch (cause) {
    if (!late.aborted || interrupted.aborted) throw cause;
    const logs = await Promise.all(operators.map((operator) => endOf(logOf(folder, operator))));
    throw new TurnError(`Events are missing${logs.join('')}`, { cause });
  }
}
