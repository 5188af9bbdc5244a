import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { watchOthers } from '../disturbance.ts';
import type { Operator } from '../operators.ts';
import { RunningOperator, TurnError } from '../running-operator.ts';
import { cpuSeconds } from '../usage.ts';
import { ScriptedCluster } from './scripted-cluster.ts';

export interface EventCost {
  /** The number of cached Echos, and of cached Jobs. */
  readonly size: number;
  /** Milliseconds of the operator's CPU for one event that requires no write: reading, storing and reconciling. */
  readonly cpuPerEvent: number;
  readonly disturbance: number;
}

const batch = 1000;
/** Before the measurement, so that V8 has compiled the hot code. */
const warmUpBatches = 5;
const batches = 20;
const timeoutMs = 120_000;

/** Runs the operator with a scripted cluster. @throws TurnError if the operator is late, or writes for an Echo that needs no write */
export async function eventCostTurn(
  operator: Operator,
  size: number,
  folder: string,
  interrupted: AbortSignal,
): Promise<EventCost> {
  const late = AbortSignal.timeout(timeoutMs);
  const signal = AbortSignal.any([interrupted, late]);
  const cluster = await ScriptedCluster.start(size);
  try {
    const kubeconfig = join(folder, 'scripted-cluster.kubeconfig');
    await writeFile(kubeconfig, cluster.kubeconfig);
    const running = await RunningOperator.start(operator, { kubeconfig }, join(folder, `${operator.name}.log`));
    try {
      for (let done = 0; done < warmUpBatches; done++) await cluster.change(batch, signal);
      const others = await watchOthers();
      const before = await cpuSeconds(running.pid);
      for (let done = 0; done < batches; done++) await cluster.change(batch, signal);
      const seconds = (await cpuSeconds(running.pid)) - before;
      const [needless] = cluster.needlessWrites;
      if (needless !== undefined) throw new TurnError(`${operator.name} wrote for an unchanged Echo: ${needless}`);
      return { size, cpuPerEvent: (seconds * 1000) / (batch * batches), disturbance: await others() };
    } catch (cause) {
      if (!late.aborted || interrupted.aborted) throw cause;
      throw new TurnError(
        `${operator.name}: with ${size} Echos cached, it did not handle all changes within ${timeoutMs} ms`,
        {
          cause,
        },
      );
    } finally {
      await running.stop();
    }
  } finally {
    await cluster.stop();
  }
}
