import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { watchOthers } from '../disturbance.ts';
import type { Operator } from '../operators.ts';
import type { Turn } from '../results.ts';
import { RunningOperator, TurnError } from '../running-operator.ts';
import type { RunContext } from '../turns.ts';
import { cpuSeconds } from '../usage.ts';
import { ScriptedCluster } from './scripted-cluster.ts';

/** The number of changes per batch. No Echo changes twice in a batch, because work queues merge the events of a key. */
const batchOf = (echos: number): number => Math.min(1000, echos);
/** The number of events before the measurement, so that V8 has compiled the hot code. */
const warmUpEvents = 5000;
const events = 20_000;
/** The pause after the last event, for the reconciles that are still in flight or queued. */
const drainMs = 500;
const timeoutMs = 120_000;

/**
 * Measures the operator's CPU for an event that requires no write, with a scripted cluster: reading, storing and
 * reconciling.
 *
 * @param objects how many are cached: half of them Echos, half Jobs
 * @throws TurnError if the operator is late, or writes for an Echo that needs no write
 */
export async function eventCostTurn(
  operator: Operator,
  objects: number,
  { folder, signal: interrupted }: RunContext,
): Promise<Turn> {
  const late = AbortSignal.timeout(timeoutMs);
  const signal = AbortSignal.any([interrupted, late]);
  const echos = objects / 2;
  const batch = batchOf(echos);
  const cluster = await ScriptedCluster.start(echos);
  const change = async (count: number): Promise<void> => {
    for (let done = 0; done < count; done += batch) await cluster.change(batch, signal);
  };
  try {
    const kubeconfig = join(folder, 'scripted-cluster.kubeconfig');
    await writeFile(kubeconfig, cluster.kubeconfig);
    const running = await RunningOperator.start(operator, { kubeconfig }, join(folder, `${operator.name}.log`));
    try {
      await change(warmUpEvents);
      const others = await watchOthers();
      const before = await cpuSeconds(running.pid);
      await change(events);
      await delay(drainMs, undefined, { signal });
      const seconds = (await cpuSeconds(running.pid)) - before;
      const [needless] = cluster.needlessWrites;
      if (needless !== undefined) throw new TurnError(`${operator.name} wrote for an unchanged Echo: ${needless}`);
      return { figures: { eventCpu: (seconds * 1e6) / events }, disturbance: await others() };
    } catch (cause) {
      if (!late.aborted || interrupted.aborted) throw cause;
      throw new TurnError(
        `${operator.name}: with ${objects} objects cached, it did not handle all changes within ${timeoutMs} ms`,
        { cause },
      );
    } finally {
      await running.stop();
    }
  } finally {
    await cluster.stop();
  }
}
