import { done, owns, type Reconcile } from '@echoperator/runtime';
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { Overlay } from '../../../../packages/runtime/src/cache/overlay.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { Part, partsPath, stored, Widget, widgetsPath } from '../../../../testkit/widgets.ts';
import { Managed } from '../../environment/managed.ts';

let managed: Managed;
beforeEach(async () => {
  // Makes pauses a hundredth of their base.
  jest.spyOn(Math, 'random').mockReturnValue(-0.49);
  managed = await Managed.start();
});
afterEach(async () => {
  await managed.close();
  jest.restoreAllMocks();
});

const resource = 'widgets.test.example';
const ofCache = (name: string, labels: object = {}): Promise<number> => managed.metric(name, { resource, ...labels });

async function latencies(): Promise<{ readonly count: number; readonly seconds: number }> {
  const text = await managed.registry.getSingleMetricAsString('controller_event_latency_seconds');
  const value = (suffix: string): number =>
    Number(new RegExp(`_${suffix}\\{controller="widget"\\} (.*)$`, 'm').exec(text)?.[1]);
  return { count: value('count'), seconds: value('sum') };
}

test('the age of the cache starts anew with each event, bookmark and accepted watch, and its errors and lists count', async () => {
  const informer = managed.manager.informer(Widget, { listing: 'paged' });
  const age = (): Promise<number> => ofCache('informer_last_event_age_seconds');
  expect(await managed.registry.getSingleMetricAsString('informer_last_event_age_seconds')).not.toContain(resource);
  managed.run();
  (await managed.server.next({ watch: false })).refuse(500, 'InternalError');
  await eventually(
    'the failed list counts',
    async () => (await ofCache('reflector_errors_total', { verb: 'list' })) === 1,
  );
  const { [widgetsPath]: stream } = await managed.sync({
    [widgetsPath]: { resourceVersion: '10', items: [stored('a', '1')] },
  });
  expect(await ofCache('reflector_lists_total')).toBe(1);
  expect(await ofCache('informer_cached_objects')).toBe(1);
  for (const [type, version] of [
    ['ADDED', '11'],
    ['BOOKMARK', '12'],
  ] as const) {
    await eventually('the cache ages', async () => (await age()) > 0.02);
    const sentAtMs = performance.now();
    stream.send(type, stored('b', version));
    await eventually('it has come', async () => informer.hasReached(version));
    expect(await age()).toBeLessThan((performance.now() - sentAtMs) / 1000);
  }
  expect(await ofCache('informer_cached_objects')).toBe(2);
  stream.cut();
  (await managed.server.next({ watch: false })).refuse(503, 'ServiceUnavailable');
  await eventually(
    'the failed requests count',
    async () => (await ofCache('reflector_errors_total', { verb: 'list' })) === 2,
  );
  expect(await ofCache('reflector_errors_total', { verb: 'watch' })).toBe(1);
  (await managed.server.next({ watch: false })).refuse(410, 'Expired');
  (await managed.server.next({ watch: false })).list('20', []);
  await eventually('the relist counts', async () => (await ofCache('reflector_lists_total')) === 2);
  expect(await ofCache('informer_cached_objects')).toBe(0);
});

test('a cache that cannot take an event stays old, although its watch is accepted', async () => {
  managed.manager.informer(Widget, { listing: 'paged' });
  managed.run();
  const { [widgetsPath]: stream } = await managed.sync({ [widgetsPath]: { resourceVersion: '10' } });
  jest.spyOn(Overlay.prototype, 'observe').mockImplementation(() => {
    throw new TypeError('a defect');
  });
  stream.send('ADDED', stored('a', '11'));
  (await managed.server.next({ watch: false })).list('11', []);
  const watch = await managed.server.next({ watch: true });
  const acceptedAtMs = performance.now();
  watch.stream().send('ADDED', stored('b', '12'));
  await eventually('it fails again', async () => (await ofCache('reflector_errors_total', { verb: 'watch' })) === 2);
  const sinceAccepted = (performance.now() - acceptedAtMs) / 1000;
  expect(await ofCache('informer_last_event_age_seconds')).toBeGreaterThan(sinceAccepted);
});

test('an optional kind has no age while the server does not serve it', async () => {
  managed.manager.informer(Widget, { listing: 'paged', optional: true });
  managed.run();
  (await managed.server.next({ watch: false })).refuse(404, 'NotFound');
  await eventually('the refusal counts', async () => (await ofCache('reflector_errors_total', { verb: 'list' })) === 1);
  const age = (): Promise<string> => managed.registry.getSingleMetricAsString('informer_last_event_age_seconds');
  expect(await age()).not.toContain(resource);
  (await managed.server.next({ watch: false })).list('10', []);
  await eventually('it has one again', async () => (await age()).includes(resource));
});

test('the latency of an event includes the wait until the key was free', async () => {
  const parts = [stored('part', '20'), undefined];
  const running = Promise.withResolvers<void>();
  const reconcile: Reconcile = async (key, { client }) => {
    if (parts.shift() !== undefined) {
      await client.create(Part, { metadata: { ...key, name: 'part' } });
      await running.promise;
    }
    return done;
  };
  managed.manager.controller(Widget, { watches: [owns(Widget, Part)], reconcile });
  managed.run();
  const streams = await managed.sync({
    [widgetsPath]: { resourceVersion: '10', items: [stored('a', '1')] },
    [partsPath]: { resourceVersion: '10' },
  });
  (await managed.server.next({ method: 'POST' })).json(201, stored('part', '20'));
  const sentAtMs = performance.now();
  streams[widgetsPath].send('MODIFIED', stored('a', '11'));
  const widgets = managed.manager.informer(Widget);
  await eventually('the event has come', async () => widgets.hasReached('11'));
  const cameBeforeMs = performance.now();
  // A list is no event.
  expect(await latencies()).toEqual({ count: 0, seconds: 0 });
  const runningMs = performance.now() - cameBeforeMs;
  running.resolve();
  await eventually('the event has been reconciled', async () => (await latencies()).count === 1);
  const { seconds } = await latencies();
  expect(seconds * 1000).toBeLessThan(performance.now() - sentAtMs);
  expect(seconds * 1000).toBeGreaterThan(runningMs);
});

test('the number of series depends neither on the number of objects nor on that of namespaces', async () => {
  const failures = new Set<string>();
  managed.manager.controller(Widget, {
    workers: 20,
    reconcile: async ({ name }) => {
      if (failures.has(name)) return done;
      failures.add(name);
      throw new Error(`${name} fails once`);
    },
    retries: { initialBackoffMs: 1, retriesPerSecond: Number.POSITIVE_INFINITY },
  });
  managed.run();
  const { [widgetsPath]: stream } = await managed.sync({ [widgetsPath]: { resourceVersion: '1' } });
  const succeeded = (): Promise<number> =>
    managed.metric('controller_runtime_reconcile_total', { controller: 'widget', result: 'success' });
  const series = async (): Promise<string[]> =>
    (await managed.registry.metrics()).split('\n').map((line) => line.replace(/ \S+$/, ''));
  const add = async (from: number, to: number): Promise<string[]> => {
    for (let index = from; index < to; index += 1) {
      stream.send('ADDED', stored(`w${index}`, String(index + 10), { namespace: `ns-${index}` }));
    }
    await eventually('all are reconciled', async () => (await succeeded()) >= to);
    return series();
  };
  const few = await add(0, 3);
  expect(few.length).toBeGreaterThan(50);
  expect(await add(3, 400)).toEqual(few);
});
