import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { watchOthers } from '../disturbance.ts';
import type { Operator } from '../operators.ts';
import { RunningOperator, TurnError } from '../running-operator.ts';
import { cpuSeconds } from '../usage.ts';
import { ScriptedCluster } from './scripted-cluster.ts';

export interface EventCost {
  /** Echos, and as many Jobs, that are cached. */
  readonly size: number;
  /** Milliseconds of the operator's CPU for one change of an Echo that needs nothing: read, stored, reconciled. */
  readonly cpuPerEvent: number;
  readonly disturbance: number;
}

const batch = 1000;
/** Until the compiler has seen enough. */
const warmUpBatches = 5;
const batches = 20;
const timeoutMs = 120_000;

/** Runs the operator against a scripted cluster of this size. @throws TurnError if it writes for an Echo that needs nothing */
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
      throw new TurnError(`${operator.name}: ${size} Echos cached, and changes not seen after ${timeoutMs} ms`, {
        cause,
      });
    } finally {
      await running.stop();
    }
  } finally {
    await cluster.stop();
  }
}
