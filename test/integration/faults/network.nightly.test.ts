import { ConfigMap } from '@echoperator/runtime/kinds';
import { type Fault, isList, isStreamedList, isWatch, isWrite, type RequestFilter } from '@echoperator/testing';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '../../../testkit/eventually.ts';
import {
  cluster,
  forget,
  isSecondPage,
  proxy,
  setUp,
  startSubject,
  streamedListBreaksOff,
  survive,
  tearDown,
  withSubject,
  world,
} from './environment/network-faults.ts';

beforeAll(() => setUp());
afterAll(() => tearDown());

const isResume: RequestFilter = (request) => isWatch(request) && request.query.has('resourceVersion');

describe('an informer with streamed lists has all objects in the end', () => {
  withSubject();

  test('when a watch ends within a JSON line', async () => {
    await survive({ fault: { type: 'cut', how: 'end' }, on: isWatch, strikes: 4 });
  });

  test('when a streamed list ends early', () => streamedListBreaksOff('end'));

  test('when 410 answers a resumed watch', async () => {
    const cut = proxy.inject({ type: 'cut', how: 'reset' }, { on: isWatch, times: 2 });
    await survive({
      fault: { type: 'error-response', status: 410, reason: 'Expired' },
      on: isResume,
      times: 2,
      strikes: 2,
    });
    expect(cut.count).toBe(2);
  });

  test.each([
    [429, 'TooManyRequests', 1],
    [500, 'InternalError', undefined],
    [503, 'ServiceUnavailable', 1],
  ])('when many requests get %d', async (status, reason, retryAfterSeconds) => {
    const fault: Fault = {
      type: 'error-response',
      status,
      reason,
      ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
    };
    await survive({ fault, on: isWrite, strikes: 10 });
    // The watches too must come back, in the storm: each is asked for in vain before.
    const cut = proxy.inject({ type: 'cut', how: 'reset' }, { on: isWatch, times: 2 });
    await survive({ fault, strikes: 4 });
    expect(cut.count).toBe(2);
  });

  test('when every second write gets a conflict', async () => {
    await survive({
      fault: { type: 'error-response', status: 409, reason: 'Conflict' },
      on: isWrite,
      every: 2,
      strikes: 10,
    });
  });

  test('when a watch becomes silent', async () => {
    await using impatient = await startSubject({ watchTimeoutSeconds: 2 });
    await world.converge(impatient);
    const before = await impatient.ask('heap');
    const silence = proxy.inject({ type: 'silence' }, { on: isWatch });
    await eventually('every watch is silent', async () => silence.count >= 4);
    silence.off();
    await world.change();
    await world.converge(impatient);
    await world.heapIsAsBefore(impatient, before);
    // The other one would wait for ten minutes.
    proxy.inject({ type: 'cut', how: 'reset' }, { on: isWatch }).off();
  });

  test('when a reader is so slow that the server ends its watch', async () => {
    const before = await terminatedWatches();
    const slow = proxy.inject({ type: 'slow', bytesPerSecond: 50_000 }, { on: isWatch });
    await world.change();
    await cluster.client.apply(ConfigMap, bulky(0), { force: true });
    for (let round = 1; (await terminatedWatches()) === before; round += 1) {
      await cluster.client.apply(ConfigMap, bulky(round), { force: true });
    }
    expect(slow.count).toBeGreaterThanOrEqual(2);
    slow.off();
    await world.change();
  });
});

describe('an informer with paged lists has all objects in the end', () => {
  withSubject({ listing: 'paged' });

  test('when the connection is reset within a page', async () => {
    const forgotten = forget();
    await survive({ fault: { type: 'cut', how: 'reset' }, on: isList, times: 2, strikes: 2 });
    await forgotten();
  });

  test('when the second page is truncated', async () => {
    const forgotten = forget();
    await survive({ fault: { type: 'cut', how: 'end' }, on: isSecondPage, times: 2, strikes: 2 });
    await forgotten();
  });
});

describe('an informer whose streamed lists the server refuses has all objects in the end', () => {
  withSubject();

  const streamOf =
    (resource: string): RequestFilter =>
    (request) =>
      isStreamedList(request) && request.resource === resource;

  test('of a watch that it has forgotten', async () => {
    const forgotten = forget();
    const invalid = proxy.inject({ type: 'error-response', status: 422, reason: 'Invalid' }, { on: streamOf('echos') });
    await survive({ fault: { type: 'error-response', status: 400, reason: 'BadRequest' }, on: streamOf('configmaps') });
    await eventually('both are refused', async () => invalid.count > 0);
    invalid.off();
    await forgotten();
    // It has gone over to pages.
    const relisted = forget();
    await survive({ fault: { type: 'cut', how: 'reset' }, on: isSecondPage, times: 1 });
    await relisted();
  });
});

/** 200 kB that differ from one round to the next. */
const bulky = (round: number) => ({
  metadata: { namespace: world.namespace, name: 'bulky' },
  data: { text: `${round} `.repeat(200_000 / `${round} `.length) },
});

async function terminatedWatches(): Promise<number> {
  const text = await cluster.metrics();
  const lines = text.matchAll(/^apiserver_terminated_watchers_total\{.*resource="configmaps".*\} (\d+)$/gm);
  return [...lines].reduce((sum, [, count]) => sum + Number(count), 0);
}
