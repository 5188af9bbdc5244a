import { expect, test } from '@jest/globals';
import type { RecordedRequest } from '../../../testkit/recording-proxy.ts';
import { Replay, type ReplayReport } from '../../integration/environment/replay.ts';

const events = '/apis/events.k8s.io/v1/namespaces/default/events';
const configMaps = '/api/v1/namespaces/default/configmaps';

const record = (method: string, path: string, code: number, response: string, body = ''): RecordedRequest => ({
  method,
  path,
  code,
  response,
  body,
  contentType: 'application/json',
  accept: 'application/json',
  userAgent: 'test/1',
  isLimited: false,
});

const creationTimestamp = '2026-01-01T00:00:00Z';

const configMap = (name: string, version: number) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, namespace: 'default', uid: `uid-${name}`, resourceVersion: String(version), creationTimestamp },
});

const creation = (path: string, object: ReturnType<typeof configMap>): RecordedRequest => {
  const { name } = object.metadata;
  const body = JSON.stringify({ apiVersion: object.apiVersion, kind: object.kind, metadata: { name } });
  return record('POST', path, 201, JSON.stringify(object), body);
};

const event = (name: string, version: number) => ({
  ...configMap(name, version),
  apiVersion: 'events.k8s.io/v1',
  kind: 'Event',
});

const list = (version: number): string =>
  JSON.stringify({ kind: 'List', apiVersion: 'v1', metadata: { resourceVersion: String(version) }, items: [] });

const watch = (...lines: readonly object[]): RecordedRequest => {
  const query = 'watch=true&resourceVersion=14&timeoutSeconds=300';
  return record('GET', `${configMaps}?${query}`, 200, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
};

function replay(...records: readonly RecordedRequest[]): ReplayReport {
  const report: ReplayReport = { requests: 0, equal: 0, notSimulated: new Map(), differing: [], events: 0 };
  new Replay(records, report).run();
  return report;
}

/** The simulated server removes the Events later than the API server did, so it counts their removals once more. */
const removalsOfEvents = [
  creation(events, event('one', 10)),
  creation(events, event('two', 11)),
  record('DELETE', '/api/v1/namespaces/default/events', 200, list(11)),
  creation(configMaps, configMap('first', 14)),
  record('DELETE', events, 200, list(14)),
];

const deletion = record('DELETE', `${configMaps}/first`, 200, JSON.stringify({ kind: 'Status', status: 'Success' }));

test('replays the events of later writes although the simulated server makes more removals', () => {
  const [removed, second] = [configMap('first', 15), configMap('second', 16)];
  const added = { type: 'ADDED', object: second };
  const recorded = watch({ type: 'DELETED', object: removed }, added);
  const report = replay(...removalsOfEvents, deletion, creation(configMaps, second), recorded);
  expect(report.differing.filter((each) => each.startsWith('an event'))).toEqual([]);
  expect(report.events).toBe(2);
});

test('finds events in another order', () => {
  const [removed, second] = [configMap('first', 15), configMap('second', 16)];
  const recorded = watch({ type: 'ADDED', object: second }, { type: 'DELETED', object: removed });
  const report = replay(...removalsOfEvents, deletion, creation(configMaps, second), recorded);
  expect(report.differing.filter((each) => each.startsWith('an event'))).toHaveLength(1);
});
