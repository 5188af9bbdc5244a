import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startControllerManager } from '../../testkit/control-plane.ts';
import { allowScheduling, startKwok } from '../../testkit/kwok.ts';
import { type ApiServer, namespace, startApiServer } from '../api-server.ts';
import { watchOthers } from '../disturbance.ts';
import { burst, connectWriters, steady, writers } from '../load.ts';
import type { Operator } from '../operators.ts';
import { timeoutMsFor } from '../plan.ts';
import { readRequests } from '../requests.ts';
import type { Turn } from '../results.ts';
import { endOf, RunningOperator, TurnError } from '../running-operator.ts';
import { quantile } from '../statistics.ts';
import { type Awaited, Stopwatch } from '../stopwatch.ts';
import type { RunContext } from '../turns.ts';
import { cpuSeconds } from '../usage.ts';

/** So few that the operator and the API server are idle when a Job finishes. */
const idlePace = { perSecond: 2, count: 10 };
const idlePrefix = 'idle-';
const burstPrefix = 'burst-';

const finished: Awaited = {
  job: ({ status }) =>
    status?.conditions?.some(({ type, status: is }) => type === 'Complete' && is === 'True') ?? false,
  echo: ({ status }) => status?.phase === 'Succeeded',
};

/**
 * Measures a few Echos and then a burst, whose pods run for 3 to 5 s, on a fresh API server with
 * kube-controller-manager and kwok.
 */
export async function lifecycleTurn(operator: Operator, context: RunContext): Promise<Turn> {
  const { plan, folder, signal } = context;
  const count = plan.lifecycleBurst;
  await using resources = new AsyncDisposableStack();
  const server = await startApiServer(folder, { extraPrograms: ['kube-controller-manager', 'kwok'] });
  resources.defer(() => server.stop());
  await startPods(server, resources);
  const log = join(folder, `${operator.name}.log`);
  const running = await RunningOperator.start(operator, server, log);
  resources.defer(async () => void (await running.stop()));
  const stopwatch = await Stopwatch.start(server.client, finished);
  resources.defer(() => stopwatch.stop());
  const created = ({ metadata }: { readonly metadata: { readonly name: string } }) => stopwatch.created(metadata.name);
  const succeeded = async (echos: number): Promise<void> => {
    const timeoutMs = 2 * timeoutMsFor(echos);
    const late = AbortSignal.timeout(timeoutMs);
    try {
      await stopwatch.served(echos, AbortSignal.any([signal, late]));
    } catch (cause) {
      if (!late.aborted || signal.aborted) throw cause;
      const done = `${stopwatch.servedCount} of ${echos} Echos have succeeded`;
      throw new TurnError(`${operator.name}: after ${timeoutMs} ms ${done}${await endOf(log)}`, { cause });
    }
  };

  await delay(plan.settleMs, undefined, { signal });
  const others = await watchOthers();
  await steady(server.client, idlePrefix, idlePace, created, signal);
  await succeeded(idlePace.count);
  await connectWriters(server.client, writers);
  const before = await cpuSeconds(running.pid);
  await burst(server.client, burstPrefix, count, created);
  await succeeded(idlePace.count + count);
  const cpu = (await cpuSeconds(running.pid)) - before;
  const disturbance = await others();
  const idleLags = stopwatch.statusLags(idlePrefix);
  const burstLags = stopwatch.statusLags(burstPrefix);
  // The audit log is complete when the server has stopped.
  await resources.disposeAsync();

  const { counts } = await readRequests(server.auditLog, burstPrefix);
  const jobs = await readRequests(server.auditLog, burstPrefix, 'create jobs');
  const statusWrites = (counts.get('patch echos/status') ?? 0) + (counts.get('update echos/status') ?? 0);
  return {
    figures: {
      statusWrites: statusWrites / count,
      jobsPerSecond: count / jobs.seconds,
      lifecycleCpu: (cpu * 1000) / count,
      idleLagP50: quantile(idleLags, 0.5),
      burstLagP50: quantile(burstLags, 0.5),
      burstLagP99: quantile(burstLags, 0.99),
    },
    disturbance,
  };
}

/** Starts kube-controller-manager and kwok, and waits until new pods of the namespace have a node. */
async function startPods(server: ApiServer, resources: AsyncDisposableStack): Promise<void> {
  const { kubeconfigPath, programs, client } = server;
  const manager = startControllerManager(join(programs, 'kube-controller-manager'), { kubeconfigPath });
  resources.defer(async () => {
    manager.kill('SIGTERM');
    await manager;
  });
  const stages = join(import.meta.dirname, 'stages.yaml');
  resources.defer(await startKwok(join(programs, 'kwok'), kubeconfigPath, [stages]));
  await allowScheduling({ client }, namespace);
}
