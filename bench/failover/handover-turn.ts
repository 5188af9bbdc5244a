import { setTimeout as delay } from 'node:timers/promises';
import { namespace, startApiServer } from '../api-server.ts';
import { watchOthers } from '../disturbance.ts';
import type { Turn } from '../results.ts';
import { endOf, TurnError } from '../running-operator.ts';
import { median } from '../statistics.ts';
import type { RunContext } from '../turns.ts';
import { type Handover, handoverMs, readCandidateRequests } from './audit.ts';
import { type Electing, randomPauseMs, type Standby } from './elections.ts';
import { Group } from './group.ts';
import { Stream } from './stream.ts';

/** Measures the time from SIGTERM of the leader until the next leader's first write, with a cold and a warm standby. */
export async function handoverTurn(who: Electing, context: RunContext): Promise<Turn> {
  const cold = await handovers(who, 'cold', context);
  const warm = await handovers(who, 'warm', context);
  return {
    figures: { coldHandover: median(cold.times), warmHandover: median(warm.times) },
    disturbance: Math.max(cold.disturbance, warm.disturbance),
  };
}

/** Stops one leader after the other on a fresh API server, while Echos are created. */
async function handovers(who: Electing, standby: Standby, { plan, folder, signal }: RunContext) {
  const server = await startApiServer(folder);
  const seen: Handover[] = [];
  let disturbance: number;
  try {
    const group = new Group(who, standby, server, folder);
    let stream: Stream | undefined;
    try {
      let leader = await group.leader();
      const others = await watchOthers();
      stream = await Stream.start(server.client, plan.echosPerSecond);
      for (let handover = 0; handover < plan.handovers; handover++) {
        const next = await group.another();
        await delay(randomPauseMs(), undefined, { signal });
        const signalledMs = Date.now();
        const exitCode = await leader.running.stop();
        // A leader that lost its Lease, for example on a busy machine, does not hand it over.
        if (exitCode !== 0) {
          const how = exitCode === undefined ? 'had to be killed' : `ended with ${exitCode}`;
          throw new TurnError(`a leader of ${who.operator.name} ${how}${await endOf(leader.log)}`);
        }
        seen.push({ signalledMs, next: next.name });
        await stream.goesOn(signal).catch(async (error: unknown) => {
          if (!(error instanceof TurnError)) throw error;
          throw new TurnError(`${who.operator.name}: ${error.message}${await endOf(next.log)}`, { cause: error });
        });
        leader = next;
      }
      await stream.end(signal);
      disturbance = await others();
    } finally {
      await stream?.stop();
      await group.stop();
    }
  } finally {
    // The audit log is complete when the server has stopped.
    await server.stop();
  }
  const requests = await readCandidateRequests(server.auditLog, namespace);
  return { times: seen.map((handover) => handoverMs(requests, handover)), disturbance };
}
