import { setTimeout as delay } from 'node:timers/promises';
import { namespace } from '../api-server.ts';
import { watchOthers } from '../disturbance.ts';
import type { Turn } from '../results.ts';
import type { RunContext } from '../turns.ts';
import { handoverMs, readCandidateRequests } from './audit.ts';
import type { CrashCluster } from './crash-cluster.ts';
import { type Electing, randomPauseMs } from './elections.ts';
import { Pods } from './pods.ts';
import { Stream } from './stream.ts';

/** How long a leader leads before it is killed: a new leader behaves differently. */
const ledForMs = 10_000;

/**
 * Measures the time from SIGKILL of the leader's process in its pod until the next leader's first write, with a cold
 * and a warm standby.
 */
export async function crashTurn(who: Electing, on: CrashCluster, context: RunContext): Promise<Turn> {
  const kill = (pods: Pods, pod: string) => pods.kill(pod);
  const cold = await crash(new Pods(who, 'cold', on), kill, on, context);
  const warm = await crash(new Pods(who, 'warm', on), kill, on, context);
  return {
    figures: { coldCrash: cold.ms, warmCrash: warm.ms },
    disturbance: Math.max(cold.disturbance, warm.disturbance),
  };
}

/** Measures the time from the loss of the leader's node until the next leader's first write, with a warm standby. */
export async function lostNodeTurn(who: Electing, on: CrashCluster, context: RunContext): Promise<Turn> {
  const pods = new Pods(who, 'warm', on);
  const { ms, disturbance } = await crash(pods, (_, pod) => pods.loseNode(pod), on, context);
  return { figures: { nodeLoss: ms }, disturbance };
}

/** @param end ends a leader, and returns when, in milliseconds since 1970 */
async function crash(
  pods: Pods,
  end: (pods: Pods, pod: string) => Promise<number>,
  on: CrashCluster,
  { plan, signal }: RunContext,
) {
  let stream: Stream | undefined;
  try {
    const { pod } = await pods.start(signal);
    const others = await watchOthers(() => on.cluster.processes());
    stream = await Stream.start(on.client, plan.echosPerSecond);
    await delay(ledForMs + randomPauseMs(), undefined, { signal });
    const endedMs = await end(pods, pod);
    await stream.goesOn(signal);
    await stream.end(signal);
    const disturbance = await others();
    // The next leader may be a new container of the same pod. The time of acquisition distinguishes its writes from the
    // old container's.
    const next = await pods.leader();
    const requests = await readCandidateRequests(on.cluster.auditLog, namespace);
    const ms = handoverMs(requests, { signalledMs: endedMs, next: next.pod, nextLedFromMs: next.acquiredMs });
    return { ms, disturbance };
  } finally {
    await stream?.stop();
    await pods.stop(signal);
  }
}
