import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { forEachConcurrently } from '../../packages/testing/src/for-each-concurrently.ts';
import { type ApiServer, startApiServer } from '../api-server.ts';
import { ourCpuSeconds, watchOthers } from '../disturbance.ts';
import { connectWriters, eventsArrived, writers } from '../load.ts';
import type { Operator } from '../operators.ts';
import { timeoutMsFor } from '../plan.ts';
import { perEcho, readRequestsFor } from '../requests.ts';
import type { Turn } from '../results.ts';
import { endOf, RunningOperator, TurnError, workers } from '../running-operator.ts';
import type { RunContext } from '../turns.ts';
import type { BareWrites, Subject } from './subjects.ts';

/** Measures an operator that starts when all objects exist, and creates the external part of each. */
export async function externalTurn(subject: Subject, operator: Operator, context: RunContext): Promise<Turn> {
  const { folder, plan } = context;
  const count = subject.countOf(plan);
  await using external = await subject.external(count, folder);
  const turn = await onServerWithObjects(subject, context, async (server) => {
    const log = join(folder, `${operator.name}.log`);
    const { environment } = external;
    const running = await RunningOperator.start(operator, server, log, { environment });
    try {
      await external.during(() => served(server, count, log, context));
    } finally {
      await running.stop();
    }
  });
  return { ...turn, figures: { ...turn.figures, ...(await external.figures()) } };
}

/** Measures the same writes to the API server by the bench itself, as many at a time as an operator has workers. */
export async function bareTurn(subject: Subject, context: RunContext): Promise<Turn> {
  return onServerWithObjects(subject, context, async (server, bareWrites) => {
    const writer = server.clientNamed('ceiling');
    await connectWriters(writer, workers);
    const write = async (writesOfOne: BareWrites): Promise<void> => {
      context.signal.throwIfAborted();
      await writesOfOne(writer);
    };
    await forEachConcurrently(bareWrites, write, workers);
  });
}

/** Runs `work` on a fresh API server with all objects, and evaluates the audit log. */
async function onServerWithObjects(
  subject: Subject,
  { plan, folder, signal }: RunContext,
  work: (server: ApiServer, bareWrites: readonly BareWrites[]) => Promise<void>,
): Promise<Turn> {
  const count = subject.countOf(plan);
  const server = await startApiServer(folder);
  let disturbance: number;
  let cpuSeconds: number;
  try {
    const bareWrites: BareWrites[] = [];
    const create = async (index: number): Promise<void> => {
      signal.throwIfAborted();
      bareWrites.push(await subject.create(server.client, index));
    };
    await forEachConcurrently(Array(count).keys(), create, writers);
    await delay(plan.settleMs, undefined, { signal });
    const others = await watchOthers();
    const before = await ourCpuSeconds();
    await work(server, bareWrites);
    cpuSeconds = (await ourCpuSeconds()) - before;
    disturbance = await others();
  } finally {
    // The audit log is complete when the server has stopped.
    await server.stop();
  }
  const counted = await readRequestsFor(subject.plural, server.auditLog);
  const requests = { [subject.scenario]: perEcho(counted, count) };
  return { figures: subject.figures(count, counted.seconds, cpuSeconds), disturbance, requests };
}

/** Waits until every object has an Event, which follows the last write of its status. */
async function served(server: ApiServer, count: number, log: string, { signal }: RunContext): Promise<void> {
  const timeoutMs = 2 * timeoutMsFor(count);
  const late = AbortSignal.timeout(timeoutMs);
  try {
    await eventsArrived(server.client, count, AbortSignal.any([signal, late]));
  } catch (cause) {
    if (!late.aborted || signal.aborted) throw cause;
    throw new TurnError(`after ${timeoutMs} ms not all of ${count} objects have an Event${await endOf(log)}`, {
      cause,
    });
  }
}
