import { setTimeout as delay } from 'node:timers/promises';
import type { Echo } from '../src/kinds/echo/kind.ts';
import { startApiServer } from './api-server.ts';
import { watchOthers } from './disturbance.ts';
import { burst, connectWriters, eventsArrived, serve, writers } from './load.ts';
import { perEcho, readRequests } from './requests.ts';
import type { Turn } from './results.ts';
import { workers } from './running-operator.ts';
import type { RunContext } from './turns.ts';
import { cpuSeconds } from './usage.ts';

const prefix = 'burst-';

/**
 * Measures the API server's limit: the burst without an operator. The bench sends an operator's writes, as many at a
 * time as an operator has workers, and reads nothing. Only an operator that needs less CPU than the bench can be
 * faster.
 */
export async function ceilingTurn({ plan, folder, signal }: RunContext): Promise<Turn> {
  const server = await startApiServer(folder);
  let measured: { readonly serverCpu: number; readonly disturbance: number };
  try {
    const writer = server.clientNamed('ceiling');
    await connectWriters(server.client, writers);
    await connectWriters(writer, workers);
    // An operator's turn waits as long, because the server has just started.
    await delay(plan.settleMs, undefined, { signal });
    const others = await watchOthers();
    const before = await cpuSeconds(server.pid);
    const echos = Array.from({ length: plan.burst }, () => Promise.withResolvers<Echo>());
    let created = 0;
    await Promise.all([
      burst(server.client, prefix, plan.burst, (echo) => echos[created++]?.resolve(echo)),
      serve(
        writer,
        echos.map(({ promise }) => promise),
      ),
    ]);
    await eventsArrived(server.client, plan.burst, signal);
    measured = { serverCpu: (await cpuSeconds(server.pid)) - before, disturbance: await others() };
  } finally {
    await server.stop();
  }
  const counted = await readRequests(server.auditLog, prefix);
  return {
    figures: {
      echosPerSecond: plan.burst / counted.seconds,
      serverCpuPerEcho: (measured.serverCpu * 1000) / plan.burst,
    },
    disturbance: measured.disturbance,
    requests: { burst: perEcho(counted, plan.burst) },
  };
}
