import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { customResourceDefinition } from '@echoperator/runtime';
import { type Client, createClient } from '@echoperator/runtime/client';
import { Namespace } from '@echoperator/runtime/kinds';
import { ApiServer } from '@echoperator/testing';
import fc from 'fast-check';
import { forEachConcurrently } from '../../../packages/testing/src/for-each-concurrently.ts';
import { SimulatedApiServer } from '../../../packages/testing/src/simulation/simulated-api-server.ts';
import { SimulatedNetwork } from '../../../packages/testing/src/simulation/simulated-network.ts';
import { kinds } from '../../../src/operator.ts';
import { apiServerPrograms } from '../../../testkit/api-server-programs.ts';
import { freePorts } from '../../../testkit/free-ports.ts';
import {
  type CanonicalResponse,
  isRefusal,
  notSimulated,
  type RandomHistory,
  type RandomWatch,
  RequestSender,
  randomHistories,
} from './random-requests.ts';

/**
 * Starts an API server for random histories. It is a server of its own, because a garbage collector would write to
 * objects with owners.
 */
export async function startHistoryServer(): Promise<ApiServer> {
  const folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER!, 'histories-'));
  const [port] = await freePorts();
  const crds = kinds.map((kind) => customResourceDefinition(kind));
  return ApiServer.start({ assets: await apiServerPrograms(folder), folder, port, crds, stopTimeoutMs: 1_000 });
}

/** What became of random histories. */
export interface HistoryCounts {
  requests: number;
  /** Refusals that are not simulated. */
  skipped: number;
  /** Of histories that end early because the API server accepts what is not simulated: what that is. */
  readonly unfinished: string[];
  /** Of watches. */
  events: number;
}

/** The responses of both servers to one request differ. */
class DifferenceError extends Error {
  override readonly name = 'DifferenceError';
  readonly difference: { readonly request: unknown; readonly expected: unknown; readonly response: unknown };

  constructor(request: unknown, expected: CanonicalResponse, response: CanonicalResponse) {
    const text = JSON.stringify(request);
    super(`the responses to ${text} differ\nAPI server: ${expected}\nsimulation: ${response}`);
    this.difference = { request, expected: JSON.parse(expected), response: JSON.parse(response) };
  }
}

/**
 * Compares random histories, four at a time, and throws what {@link compareHistory} throws. Prints the seed that
 * repeats a failure.
 */
export async function compareHistories(
  server: ApiServer,
  { seed, count }: { readonly seed: number; readonly count: number },
): Promise<HistoryCounts> {
  const client = createClient(server.connection, { fieldManager: 'test' });
  const counts: HistoryCounts = { requests: 0, skipped: 0, unfinished: [], events: 0 };
  const histories = fc.sample(randomHistories, { seed, numRuns: count }).entries();
  try {
    await forEachConcurrently(Array(4).keys(), async (lane) => {
      const namespace = `histories-${seed}-${lane}`;
      await client.create(Namespace, { metadata: { name: namespace } });
      for (const [index, history] of histories) {
        await compareHistory(client, namespace, history, counts).catch((cause) => {
          const message = `history ${index} of HISTORIES_SEED=${seed} with HISTORIES=${count} failed: ${cause.message}`;
          throw new Error(message, { cause });
        });
      }
    });
    const { requests, skipped, unfinished, events } = counts;
    console.log(
      `${count} histories of seed ${seed} with ${requests} requests and ${events} events were equal, apart from ` +
        `${skipped} refusals and ${unfinished.length} ends that are not simulated`,
    );
    return counts;
  } finally {
    await client.close();
  }
}

/**
 * Sends the requests of a history to an API server and to a simulated one.
 *
 * @param namespace of the API server; it is empty before and afterwards
 * @throws DifferenceError if the responses or the events of the watch differ
 */
async function compareHistory(
  client: Client,
  namespace: string,
  { requests, watch }: RandomHistory,
  counts: HistoryCounts,
): Promise<void> {
  const network = new SimulatedNetwork(new SimulatedApiServer({ kinds }));
  const simulated = createClient(network.connect('user', { isImmediate: true }), { fieldManager: 'test' });
  await simulated.create(Namespace, { metadata: { name: namespace } });
  const [real, other] = [new RequestSender(client, namespace), new RequestSender(simulated, namespace)];
  const ended = new AbortController();
  const startWatch = await watchOf(real, watch, ended.signal);
  const startOther = await watchOf(other, watch, ended.signal);
  let events: Promise<readonly [string, string]> | undefined;
  try {
    for (const [index, request] of requests.entries()) {
      if (index === Math.min(watch.start, requests.length - 1)) {
        const watches = [startWatch(), startOther()] as const;
        events = Promise.all([watches[0].events, watches[1].events]);
        events.catch(() => {});
        const started = Promise.all(watches.map((each) => each.started));
        await deliverUntil(Promise.race([started, events]), network);
      }
      counts.requests += 1;
      const expected = await real.send(request);
      const response = await other.send(request);
      if (response === notSimulated) {
        if (isRefusal(expected)) {
          counts.skipped += 1;
          continue;
        }
        // From here on the two servers have other objects.
        counts.unfinished.push(other.notSimulated);
        return;
      }
      if (response !== expected) throw new DifferenceError(request, expected, response);
    }
    for (const sender of [real, other]) await sender.endWatch(watch);
    if (events === undefined) return;
    const [expected, response] = await deliverUntil(events, network);
    counts.events += JSON.parse(expected).length;
    if (expected !== response) throw new DifferenceError(watch, expected, response);
  } finally {
    ended.abort();
    await events?.catch(() => {});
    await simulated.close();
    await real.clear();
  }
}

/** Returns a function that starts a watch from the present version. */
async function watchOf(sender: RequestSender, watch: RandomWatch, signal: AbortSignal) {
  const version = await sender.version(watch);
  return () => {
    const { promise: started, resolve } = Promise.withResolvers<void>();
    const events = sender.watch(watch, version, { started: resolve, signal });
    return { started, events: events.then((all) => `[${all.join()}]`) };
  };
}

/** Delivers the events of the simulated server until something has happened. */
async function deliverUntil<T>(promise: Promise<T>, network: SimulatedNetwork): Promise<T> {
  let isSettled = false;
  const settle = (): void => {
    isSettled = true;
  };
  promise.then(settle, settle);
  while (!isSettled) {
    for (const step of network.steps()) await step.run();
    await setImmediate();
  }
  return promise;
}
