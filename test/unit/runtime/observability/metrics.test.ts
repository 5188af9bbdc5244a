import { beforeEach, describe, expect, test } from '@jest/globals';
import { Registry } from 'prom-client';
import { Metrics } from '../../../../src/runtime/observability/index.ts';

let registry: Registry;
let metrics: Metrics;
beforeEach(() => {
  registry = new Registry();
  metrics = new Metrics(registry);
});

/** The lines of the exposition that hold values of a metric. */
const lines = async (name: string): Promise<string[]> =>
  (await registry.metrics()).split('\n').filter((line) => line.startsWith(`${name}{`));

test('names, types and labels are those of controller-runtime and client-go', async () => {
  metrics.reconciles('widget', 4);
  metrics.queue('widget');
  const types = (await registry.metrics()).split('\n').filter((line) => line.startsWith('# TYPE '));
  expect(types.sort()).toEqual([
    '# TYPE controller_runtime_active_workers gauge',
    '# TYPE controller_runtime_max_concurrent_reconciles gauge',
    '# TYPE controller_runtime_reconcile_errors_total counter',
    '# TYPE controller_runtime_reconcile_time_seconds histogram',
    '# TYPE controller_runtime_reconcile_total counter',
    '# TYPE rest_client_requests_total counter',
    '# TYPE workqueue_adds_total counter',
    '# TYPE workqueue_depth gauge',
    '# TYPE workqueue_queue_duration_seconds histogram',
    '# TYPE workqueue_retries_total counter',
  ]);
});

test('a controller is there before its first reconcile, at zero', async () => {
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

test('so is a queue: a rate needs its first step', async () => {
  metrics.queue('widget');
  for (const name of ['workqueue_depth', 'workqueue_adds_total', 'workqueue_retries_total']) {
    expect(await lines(name)).toEqual([`${name}{name="widget",controller="widget"} 0`]);
  }
});

describe('a reconcile', () => {
  test('counts as active while it is', async () => {
    const observer = metrics.reconciles('widget', 4);
    observer.started();
    observer.started();
    observer.finished('success', 0.1);
    expect(await lines('controller_runtime_active_workers')).toEqual([
      'controller_runtime_active_workers{controller="widget"} 1',
    ]);
  });

  test('counts under its outcome, and only a failure as an error', async () => {
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

test('a queue tells its depth, adds, retries and waits', async () => {
  const observer = metrics.queue('widget');
  observer.added?.();
  observer.added?.();
  observer.retried?.();
  observer.depth?.(7);
  observer.waited?.(0.5);
  const label = 'name="widget",controller="widget"';
  expect(await lines('workqueue_adds_total')).toEqual([`workqueue_adds_total{${label}} 2`]);
  expect(await lines('workqueue_retries_total')).toEqual([`workqueue_retries_total{${label}} 1`]);
  expect(await lines('workqueue_depth')).toEqual([`workqueue_depth{${label}} 7`]);
  expect(await lines('workqueue_queue_duration_seconds_sum')).toEqual([
    `workqueue_queue_duration_seconds_sum{${label}} 0.5`,
  ]);
});

test('requests are counted by code, method and host', async () => {
  const observe = metrics.requests('10.96.0.1:443');
  observe('GET', '200');
  observe('GET', '200');
  observe('POST', '<error>');
  expect(await lines('rest_client_requests_total')).toEqual([
    'rest_client_requests_total{code="200",host="10.96.0.1:443",method="GET"} 2',
    'rest_client_requests_total{code="<error>",host="10.96.0.1:443",method="POST"} 1',
  ]);
});
