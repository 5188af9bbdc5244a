import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type Client, keyOf, type Manifest } from '@echoperator/runtime';
import { childManifest, desiredStatus } from '@echoperator/runtime/controller';
import { Event, Job } from '@echoperator/runtime/kinds';
import { statusPatch } from '../packages/runtime/src/kind/status-patch.ts';
import { forEachConcurrently } from '../packages/testing/src/for-each-concurrently.ts';
import { echoReasons, outcomeOf } from '../src/kinds/echo/controller.ts';
import { echoJob } from '../src/kinds/echo/echo-job.ts';
import { Echo } from '../src/kinds/echo/kind.ts';
import { podSettings } from '../testkit/pod-settings.ts';
import { namespace } from './api-server.ts';
import { workers } from './running-operator.ts';

/** How many Echos a burst creates at a time. */
export const writers = 16;

/** A number of Echos at an even pace. */
export interface Pace {
  readonly perSecond: number;
  readonly count: number;
}

export const echoNamed = (name: string, where: string = namespace): Manifest<Echo> => ({
  // The type requires a generation, which the server ignores and sets itself.
  metadata: { name, namespace: where, generation: 0 },
  spec: { message: `Hola, ${name}!` },
});

const nameOf = (prefix: string, index: number): string => `${prefix}${String(index).padStart(5, '0')}`;

/** Opens `count` connections, so that a burst does not wait for handshakes. */
export async function connectWriters(client: Client, count: number): Promise<void> {
  await Promise.all(Array.from({ length: count }, () => client.list(Echo, { namespace, limit: 1 })));
}

/**
 * Creates Echos with 16 writers, as fast as possible.
 *
 * @param created called with each Echo when it exists
 * @param where their namespace
 */
export async function burst(
  client: Client,
  prefix: string,
  count: number,
  created: (echo: Echo) => void,
  where: string = namespace,
): Promise<void> {
  const create = async (index: number): Promise<void> =>
    created(await client.create(Echo, echoNamed(nameOf(prefix, index), where)));
  await forEachConcurrently(Array(count).keys(), create, writers);
}

/**
 * Creates Echos at an even pace, independent of the server's response time.
 *
 * @param created called with each Echo when it exists, and with the time at which its creation was due, by
 *   `performance.now()`
 * @param signal stops it early
 */
export async function steady(
  client: Client,
  prefix: string,
  { perSecond, count }: Pace,
  created: (echo: Echo, dueAtMs: number) => void,
  signal?: AbortSignal,
): Promise<void> {
  const begun = performance.now();
  const creations: Promise<void>[] = [];
  for (let index = 0; index < count && !signal?.aborted; index++) {
    const dueAtMs = begun + (index * 1000) / perSecond;
    const earlyMs = dueAtMs - performance.now();
    if (earlyMs > 0) await delay(earlyMs);
    const creation = client.create(Echo, echoNamed(nameOf(prefix, index))).then((echo) => created(echo, dueAtMs));
    // Awaited below, with all others.
    creation.catch(() => {});
    creations.push(creation);
  }
  await Promise.all(creations);
}

/** Creates Echos with their Jobs and statuses, so that an operator has nothing to write. */
export async function populate(client: Client, prefix: string, count: number): Promise<void> {
  const create = async (index: number): Promise<void> => {
    const echo = await client.create(Echo, echoNamed(nameOf(prefix, index)));
    await makeJobAndStatus(client, echo);
  };
  await forEachConcurrently(Array(count).keys(), create, writers);
}

/** Sends an operator's writes for each Echo, as many at a time as an operator has workers. */
export async function serve(client: Client, echos: readonly Promise<Echo>[]): Promise<void> {
  const serveOne = async (created: Promise<Echo>): Promise<void> => {
    const echo = await created;
    await makeJobAndStatus(client, echo);
    await client.create(Event, eventFor(echo));
  };
  await forEachConcurrently(echos, serveOne, workers);
}

async function makeJobAndStatus(client: Client, echo: Echo): Promise<void> {
  const job = await client.create(Job, childManifest({ kind: Echo, object: echo }, Job, echoJob(echo, podSettings)));
  const patch = statusPatch(echo.status, desiredStatus(echoReasons, echo, outcomeOf(echo, job), new Date()));
  if (patch === undefined) throw new Error(`Echo ${echo.metadata.name} has a status already`);
  const { resourceVersion } = echo.metadata;
  await client.mergeStatus(Echo, { ...keyOf(echo), resourceVersion }, patch);
}

function eventFor({ apiVersion, kind, metadata: { name, uid } }: Echo): Manifest<Event> {
  return {
    metadata: { name: `${name}.${randomBytes(8).toString('hex')}`, namespace },
    eventTime: new Date().toISOString().replace('Z', '000Z'),
    type: 'Normal',
    reason: 'Printing',
    action: 'Reconcile',
    note: `Job ${name} prints the message`,
    reportingController: 'mmontes.io/ceiling',
    reportingInstance: 'bench',
    regarding: { ...(apiVersion && { apiVersion }), ...(kind && { kind }), namespace, name, uid },
  };
}

/** Waits until there are `count` Events in a namespace. */
export async function eventsArrived(
  client: Client,
  count: number,
  signal: AbortSignal,
  where: string = namespace,
): Promise<void> {
  for (;;) {
    const { items, metadata } = await client.list(Event, { namespace: where, limit: 1, signal });
    if (items.length + (metadata.remainingItemCount ?? 0) >= count) return;
    await delay(100, undefined, { signal });
  }
}
