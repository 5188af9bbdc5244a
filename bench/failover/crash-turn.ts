import { setTimeout as delay } from 'node:timers/promises';
import { namespace } from '../api-server.ts';
import { watchOthers } from '../disturbance.ts';
import type { Turn } from '../results.ts';
import type { RunContext } from '../turns.ts';
import { handoverMs, readCandidateRequests } from './audit.ts';
import type { CrashCluster } from './crash-cluster.ts';
import { type Electing, randomPauseMs, type Standby } from './elections.ts';
import { Pods } from './pods.ts';
import { Stream } from './stream.ts';

/** How long a leader leads before it is killed: a new leader behaves differently. */
const ledForMs = 10_000;

/**
 * Measures the time from SIGKILL of the leader's process in its pod until the next leader's first write, with a cold and a warm standby.
 */
export async function crashTurn(who: Electing, on: CrashCluster, context: RunContext): Promise<Turn> {
  const cold = await crash(who, 'cold', on, context);
  const warm = await crash(who, 'warm', on, context);
  return {
    figures: { coldCrash: cold.ms, warmCrash: warm.ms },
    disturbance: Math.max(cold.disturbance, warm.disturbance),
  };
}

async function crash(who: Electing, standby: Standby, on: CrashCluster, { plan, signal }: RunContext) {
  const pods = new Pods(who, standby, on);
  let stream: Stream | undefined;
  try {
    const { pod } = await pods.start(signal);
    const others = await watchOthers(() => on.cluster.processes());
    stream = await Stream.start(on.client, plan.echosPerSecond);
    await delay(ledForMs + randomPauseMs(), undefined, { signal });
    const killedMs = await pods.kill(pod);
    await stream.goesOn(signal);
    await stream.end(signal);
    const disturbance = await others();
    // The next leader may be a new container of the same pod. The time of acquisition tells its writes from the old container's.
    const next = await pods.leader();
    const requests = await readCandidateRequests(on.cluster.auditLog, namespace);
    const ms = handoverMs(requests, { signalledMs: killedMs, next: next.pod, nextLedFromMs: next.acquiredMs });
    return { ms, disturbance };
  } finally {
    await stream?.stop();
    await pods.stop();
  }
}
