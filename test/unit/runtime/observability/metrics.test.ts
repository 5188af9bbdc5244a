import { beforeEach, describe, expect, jest, test } from '@jest/globals';
import { Registry } from 'prom-client';
import { Metrics } from '../../../../packages/runtime/src/observability/metrics.ts';

let registry: Registry;
let metrics: Metrics;
beforeEach(() => {
  registry = new Registry();
  metrics = new Metrics(registry);
});

/** The lines of the exposition that hold values of a metric. */
const lines = async (name: string): Promise<string[]> =>
  (await registry.metrics()).split('\n').filter((line) => line.startsWith(`${name}{`));

/**
 * As controller-runtime 0.25.2 registers them: pkg/internal/controller/metrics/metrics.go,
 * pkg/internal/metrics/workqueue.go, pkg/metrics/client_go_adapter.go, pkg/metrics/leaderelection.go.
 */
const reconcileBuckets =
  '0.005 0.01 0.025 0.05 0.1 0.15 0.2 0.25 0.3 0.35 0.4 0.45 0.5 0.6 0.7 0.8 0.9 1 1.25 1.5 1.75 2 2.5 3 3.5 4 4.5 ' +
  '5 6 7 8 9 10 15 20 25 30 40 50 60 +Inf';
const queueBuckets = '1e-8 1e-7 0.000001 0.00001 0.0001 0.001 0.01 0.1 1 10 100 1000 +Inf';
const ofControllerRuntime = [
  ['controller_runtime_active_workers', 'gauge', 'controller'],
  ['controller_runtime_max_concurrent_reconciles', 'gauge', 'controller'],
  ['controller_runtime_reconcile_errors_total', 'counter', 'controller'],
  ['controller_runtime_reconcile_panics_total', 'counter', 'controller'],
  ['controller_runtime_reconcile_time_seconds', 'histogram', 'controller', reconcileBuckets],
  ['controller_runtime_reconcile_timeouts_total', 'counter', 'controller'],
  ['controller_runtime_reconcile_total', 'counter', 'controller result'],
  ['controller_runtime_terminal_reconcile_errors_total', 'counter', 'controller'],
  ['leader_election_master_status', 'gauge', 'name'],
  ['rest_client_requests_total', 'counter', 'code host method'],
  ['workqueue_adds_total', 'counter', 'controller name'],
  ['workqueue_depth', 'gauge', 'controller name priority'],
  ['workqueue_longest_running_processor_seconds', 'gauge', 'controller name'],
  ['workqueue_queue_duration_seconds', 'histogram', 'controller name', queueBuckets],
  ['workqueue_retries_total', 'counter', 'controller name'],
  ['workqueue_unfinished_work_seconds', 'gauge', 'controller name'],
  ['workqueue_work_duration_seconds', 'histogram', 'controller name', queueBuckets],
];

const eventBuckets = '0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30 60 120 300 600 +Inf';
const ours = [
  ['controller_event_latency_seconds', 'histogram', 'controller', eventBuckets],
  ['controller_stuck_reconciles', 'gauge', 'controller'],
  ['informer_cached_objects', 'gauge', 'resource'],
  ['informer_unreadable_objects', 'gauge', 'resource'],
  ['informer_last_event_age_seconds', 'gauge', 'resource'],
  ['informer_watches_replaced_total', 'counter', 'resource'],
  ['leader_election_fence_closings_total', 'counter', 'name reason'],
  ['leader_election_lease_transitions', 'gauge', 'name'],
  ['leader_election_takeovers_total', 'counter', 'name reason'],
  ['reflector_errors_total', 'counter', 'resource verb'],
  ['reflector_lists_total', 'counter', 'resource'],
];

const statistics = {
  objects: 3,
  unreadableObjects: 1,
  lists: 2,
  failedLists: 1,
  failedWatches: 4,
  replacedWatches: 5,
  unconfirmedForMs: 500,
};

/** Every metric with a value, as it is exposed: its name, type, labels and, of a histogram, buckets. */
async function exposed(): Promise<string[][]> {
  const text = await registry.metrics();
  return [...text.matchAll(/^# TYPE (\S+) (\w+)\n((?:[^#\n].*\n)+)/gm)]
    .map(([, name = '', type = '', values = '']) => {
      const labels = new Set([...values.matchAll(/(\w+)="/g)].map(([, label = '']) => label));
      const buckets = labels.delete('le')
        ? [...values.matchAll(/le="(.+?)"/g)].map(([, bound]) => bound).join(' ')
        : [];
      return [name, type, [...labels].sort().join(' '), ...[buckets].flat()];
    })
    .sort();
}

test('names, types, labels and buckets are those of controller-runtime, where it has the metric', async () => {
  metrics.reconciles('widget', 4);
  metrics.queue('widget');
  metrics.requests('10.96.0.1:443')('GET', '200');
  metrics.leader('widgets');
  metrics.leaseTransitions('widgets', () => 7);
  metrics.informer('widgets', () => statistics);
  expect(await exposed()).toEqual([...ofControllerRuntime, ...ours].sort());
});

test('the informers of a resource have one value each, until the last one is removed', async () => {
  const remove = metrics.informer('widgets.test.example', () => statistics);
  const removeOther = metrics.informer('widgets.test.example', () => ({ ...statistics, unconfirmedForMs: 800 }));
  const removeStopped = metrics.informer('parts.test.example', () => ({ ...statistics, unconfirmedForMs: undefined }));
  const label = 'resource="widgets.test.example"';
  expect(await lines('informer_last_event_age_seconds')).toEqual([`informer_last_event_age_seconds{${label}} 0.8`]);
  expect((await lines('informer_cached_objects'))[0]).toBe(`informer_cached_objects{${label}} 6`);
  expect((await lines('reflector_lists_total'))[0]).toBe(`reflector_lists_total{${label}} 4`);
  expect((await lines('informer_watches_replaced_total'))[0]).toBe(`informer_watches_replaced_total{${label}} 10`);
  expect((await lines('reflector_errors_total')).slice(0, 2)).toEqual([
    `reflector_errors_total{${label},verb="list"} 2`,
    `reflector_errors_total{${label},verb="watch"} 8`,
  ]);
  remove();
  removeStopped();
  expect(await lines('informer_cached_objects')).toEqual([`informer_cached_objects{${label}} 3`]);
  removeOther();
  expect(await registry.metrics()).not.toContain('widgets.test.example');
});

test('a reconcile counts as stuck after a minute', async () => {
  const now = jest.spyOn(performance, 'now').mockReturnValue(1000);
  try {
    const queue = metrics.queue('widget');
    queue.started('default/a');
    now.mockReturnValue(2000);
    queue.started('default/b');
    now.mockReturnValue(61_500);
    expect(await lines('controller_stuck_reconciles')).toEqual(['controller_stuck_reconciles{controller="widget"} 1']);
    queue.finished('default/a');
    expect(await lines('controller_stuck_reconciles')).toEqual(['controller_stuck_reconciles{controller="widget"} 0']);
  } finally {
    now.mockRestore();
  }
});

test('counts takeovers and fence closings by reason, from zero', async () => {
  const leader = metrics.leader('widgets');
  const values = async (name: string): Promise<string[]> =>
    (await lines(name)).map((line) => line.replace(/^.*reason="(\w+)"\} /, '$1 '));
  leader.tookOver('crash');
  leader.fenceClosed('expiry');
  expect(await values('leader_election_takeovers_total')).toEqual([
    'absence 0',
    'release 0',
    'crash 1',
    'expiry 0',
    'ownClaim 0',
  ]);
  expect(await values('leader_election_fence_closings_total')).toEqual(['stopped 0', 'expiry 1', 'taken 0']);
});

test('exposes the transitions of the Lease once they are known', async () => {
  let transitions: number | undefined;
  metrics.leaseTransitions('widgets', () => transitions);
  expect(await lines('leader_election_lease_transitions')).toEqual([]);
  transitions = 7;
  expect(await lines('leader_election_lease_transitions')).toEqual([
    'leader_election_lease_transitions{name="widgets"} 7',
  ]);
});

test('removes the series of a removed controller; a new one with the same name starts at zero', async () => {
  metrics.reconciles('gadget', 1);
  metrics.queue('gadget');
  for (const workers of [4, 2]) {
    metrics.removeController('widget');
    expect(await registry.metrics()).not.toContain('widget');
    const observer = metrics.reconciles('widget', workers);
    observer.started();
    observer.finished('success', 0.1);
    metrics.queue('widget').depth(3, 7);
  }
  expect(await lines('controller_runtime_max_concurrent_reconciles')).toEqual([
    'controller_runtime_max_concurrent_reconciles{controller="gadget"} 1',
    'controller_runtime_max_concurrent_reconciles{controller="widget"} 2',
  ]);
  expect(await lines('controller_runtime_reconcile_total')).toContain(
    'controller_runtime_reconcile_total{controller="widget",result="success"} 1',
  );
  expect(await lines('controller_runtime_reconcile_time_seconds_count')).toEqual([
    'controller_runtime_reconcile_time_seconds_count{controller="gadget"} 0',
    'controller_runtime_reconcile_time_seconds_count{controller="widget"} 1',
  ]);
});

test('exposes the same values as JSON', async () => {
  metrics.queue('widget').waited(0.5);
  const json = (await registry.getMetricsAsJSON()).find(({ name }) => name === 'workqueue_queue_duration_seconds');
  expect(json?.type).toBe('histogram');
  expect(json?.values).toHaveLength(queueBuckets.split(' ').length + 2);
});

test('exposes a controller at zero before its first reconcile', async () => {
  metrics.reconciles('widget', 4);
  expect(await lines('controller_runtime_reconcile_total')).toEqual([
    'controller_runtime_reconcile_total{controller="widget",result="success"} 0',
    'controller_runtime_reconcile_total{controller="widget",result="error"} 0',
    'controller_runtime_reconcile_total{controller="widget",result="requeue_after"} 0',
  ]);
  expect(await lines('controller_runtime_reconcile_errors_total')).toEqual([
    'controller_runtime_reconcile_errors_total{controller="widget"} 0',
  ]);
  expect(await lines('controller_runtime_max_concurrent_reconciles')).toEqual([
    'controller_runtime_max_concurrent_reconciles{controller="widget"} 4',
  ]);
  expect(await lines('controller_runtime_active_workers')).toEqual([
    'controller_runtime_active_workers{controller="widget"} 0',
  ]);
});

test('exposes a queue at zero before its first key', async () => {
  metrics.queue('widget');
  for (const name of ['workqueue_adds_total', 'workqueue_retries_total', 'workqueue_unfinished_work_seconds']) {
    expect(await lines(name)).toEqual([`${name}{name="widget",controller="widget"} 0`]);
  }
  expect(await lines('workqueue_depth')).toEqual(['workqueue_depth{name="widget",controller="widget",priority="0"} 0']);
});

describe('a reconcile', () => {
  test('counts as active while it runs', async () => {
    const observer = metrics.reconciles('widget', 4);
    observer.started();
    observer.started();
    observer.finished('success', 0.1);
    expect(await lines('controller_runtime_active_workers')).toEqual([
      'controller_runtime_active_workers{controller="widget"} 1',
    ]);
  });

  test('counts under its outcome, and as an error only if it fails', async () => {
    const observer = metrics.reconciles('widget', 4);
    for (const outcome of ['success', 'error', 'error', 'requeue_after'] as const) {
      observer.started();
      observer.finished(outcome, 0.3);
    }
    expect((await lines('controller_runtime_reconcile_total')).map((line) => line.split(' ')[1])).toEqual([
      '1',
      '2',
      '1',
    ]);
    expect(await lines('controller_runtime_reconcile_errors_total')).toEqual([
      'controller_runtime_reconcile_errors_total{controller="widget"} 2',
    ]);
    const buckets = await lines('controller_runtime_reconcile_time_seconds_bucket');
    expect(buckets).toHaveLength(41);
    expect(buckets.find((line) => line.includes('le="0.25"'))).toMatch(/ 0$/);
    expect(buckets.find((line) => line.includes('le="0.3"'))).toMatch(/ 4$/);
  });
});

test('exposes the depth, adds, retries and wait times of a queue', async () => {
  const observer = metrics.queue('widget');
  observer.added?.();
  observer.added?.();
  observer.retried?.();
  observer.depth?.(7);
  observer.waited?.(0.5);
  const label = 'name="widget",controller="widget"';
  expect(await lines('workqueue_adds_total')).toEqual([`workqueue_adds_total{${label}} 2`]);
  expect(await lines('workqueue_retries_total')).toEqual([`workqueue_retries_total{${label}} 1`]);
  expect(await lines('workqueue_depth')).toEqual([`workqueue_depth{${label},priority="0"} 7`]);
  expect(await lines('workqueue_queue_duration_seconds_sum')).toEqual([
    `workqueue_queue_duration_seconds_sum{${label}} 0.5`,
  ]);
});

describe('the depth of a queue', () => {
  const depths = (): Promise<string[]> => lines('workqueue_depth');

  test('is exposed by priority', async () => {
    const observer = metrics.queue('widget');
    observer.depth(3);
    observer.depth(5, -100);
    observer.depth(2, -100);
    expect(await depths()).toEqual([
      'workqueue_depth{name="widget",controller="widget",priority="0"} 3',
      'workqueue_depth{name="widget",controller="widget",priority="-100"} 2',
    ]);
  });

  test('has a bounded number of label values for any number of priorities', async () => {
    const observer = metrics.queue('widget');
    for (let priority = 1; priority <= 100; priority += 1) observer.depth(1, priority);
    const series = await depths();
    expect(series).toHaveLength(26);
    expect(series.at(-1)).toBe(
      'workqueue_depth{name="widget",controller="widget",priority="exceeded_cardinality_limit"} 76',
    );
  });
});

describe('work', () => {
  const value = async (name: string): Promise<number> => Number((await lines(name))[0]?.split(' ')[1]);

  test('in flight counts as unfinished until it ends', async () => {
    const observer = metrics.queue('widget');
    observer.started('default/a');
    observer.started('default/b');
    const longest = await value('workqueue_longest_running_processor_seconds');
    expect(longest).toBeGreaterThan(0);
    expect(await value('workqueue_unfinished_work_seconds')).toBeGreaterThan(longest);
    observer.finished('default/a');
    observer.finished('default/b');
    expect(await value('workqueue_longest_running_processor_seconds')).toBe(0);
    expect(await value('workqueue_unfinished_work_seconds')).toBe(0);
    expect(await value('workqueue_work_duration_seconds_count')).toBe(2);
    expect(await value('workqueue_work_duration_seconds_sum')).toBeGreaterThanOrEqual(longest);
  });

  test('that was not started is not counted', async () => {
    metrics.queue('widget').finished('default/a');
    expect(await value('workqueue_work_duration_seconds_count')).toBe(0);
  });
});

test.each([
  ['terminal', 'controller_runtime_terminal_reconcile_errors_total'],
  ['panic', 'controller_runtime_reconcile_panics_total'],
  ['timeout', 'controller_runtime_reconcile_timeouts_total'],
] as const)('a %s failure has its own counter, in addition to the counter of all errors', async (failure, name) => {
  const observer = metrics.reconciles('widget', 4);
  observer.started();
  observer.finished('error', 0.1, failure);
  expect(await lines(name)).toEqual([`${name}{controller="widget"} 1`]);
  expect(await lines('controller_runtime_reconcile_errors_total')).toEqual([
    'controller_runtime_reconcile_errors_total{controller="widget"} 1',
  ]);
});

test('a bucket includes its bound; values above all bounds are in the last bucket', async () => {
  const observer = metrics.queue('widget');
  for (const seconds of [0, 1e-8, 0.1, 1000, 1001]) observer.waited(seconds);
  const buckets = (await lines('workqueue_queue_duration_seconds_bucket')).map((line) => Number(line.split(' ')[1]));
  expect(buckets).toEqual([2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 4, 5]);
});

test('exposes whether the process leads', async () => {
  const leader = metrics.leader('widgets');
  const status = (): Promise<string[]> => lines('leader_election_master_status');
  expect(await status()).toEqual(['leader_election_master_status{name="widgets"} 0']);
  leader.changed(true);
  expect(await status()).toEqual(['leader_election_master_status{name="widgets"} 1']);
  leader.changed(false);
  expect(await status()).toEqual(['leader_election_master_status{name="widgets"} 0']);
});

test('counts requests by code, method and host', async () => {
  const observe = metrics.requests('10.96.0.1:443');
  observe('GET', '200');
  observe('GET', '200');
  observe('POST', '<error>');
  expect(await lines('rest_client_requests_total')).toEqual([
    'rest_client_requests_total{code="200",host="10.96.0.1:443",method="GET"} 2',
    'rest_client_requests_total{code="<error>",host="10.96.0.1:443",method="POST"} 1',
  ]);
});
