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

/** A leader that has only just begun to lead is another thing. */
const ledForMs = 10_000;

/**
 * How long it takes, after SIGKILL to the leader's process in its pod, until the next leader writes: with a cold standby,
 * and with a warm one.
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
    // Possibly the same pod, with another container: what it writes now is told from what was under way by the time.
    const next = await pods.leader();
    const requests = await readCandidateRequests(on.cluster.auditLog, namespace);
    const ms = handoverMs(requests, { signalledMs: killedMs, next: next.pod, nextLedFromMs: next.acquiredMs });
    return { ms, disturbance };
  } finally {
    await stream?.stop();
    await pods.stop();
  }
}
