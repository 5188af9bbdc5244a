import { setTimeout as delay } from 'node:timers/promises';
import { everyRequest, namespace, startApiServer } from '../api-server.ts';
import { watchOthers } from '../disturbance.ts';
import type { Turn } from '../results.ts';
import type { RunContext } from '../turns.ts';
import { type Period, readCandidateRequests, requestsPerHour } from './audit.ts';
import type { Electing, Standby } from './elections.ts';
import { Group } from './group.ts';

/** Counts the requests per hour of three idle replicas of an operator: a leader and two standbys, cold or warm. */
export async function idleTurn(who: Electing, { plan, folder, signal }: RunContext): Promise<Turn> {
  const server = await startApiServer(folder, { auditPolicy: everyRequest });
  const groupOf = (standby: Standby) => new Group(who, standby, server, folder);
  const [cold, warm] = [groupOf('cold'), groupOf('warm')];
  let period: Period;
  let disturbance: number;
  try {
    try {
      for (const group of [cold, warm]) {
        await group.leader();
        await group.another();
        await group.another();
      }
      await delay(plan.settleMs, undefined, { signal });
      const others = await watchOthers();
      const fromMs = Date.now();
      await delay(plan.idleSeconds * 1000, undefined, { signal });
      period = { fromMs, toMs: Date.now() };
      disturbance = await others();
    } finally {
      await Promise.all([cold.stop(), warm.stop()]);
    }
  } finally {
    // The audit log is complete when the server has stopped.
    await server.stop();
  }
  const requests = await readCandidateRequests(server.auditLog, namespace);
  return {
    figures: {
      coldIdleRequests: requestsPerHour(requests, cold.names, period),
      warmIdleRequests: requestsPerHour(requests, warm.names, period),
    },
    disturbance,
  };
}
