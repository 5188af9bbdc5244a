import { done, type Operator } from '@echoperator/runtime';
import { connectOperator, type LeaderElectionOptions, probeRoutes } from '@echoperator/runtime/process';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { eventually } from '../../../../testkit/eventually.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';
import { stored, Widget, widgetsPath } from '../../../../testkit/widgets.ts';
import { electionLease, heldBy, leasePath, leasesPath, slowTimings } from '../../environment/election.ts';
import { ScriptedServer } from '../../environment/scripted-server.ts';

let server: ScriptedServer;
let log: RecordingLog;
let stop: AbortController;
let running: Promise<void>;
beforeEach(async () => {
  server = await ScriptedServer.start();
  log = new RecordingLog();
  stop = new AbortController();
});
afterEach(async () => {
  jest.restoreAllMocks();
  stop.abort();
  await server.close();
  await running.catch(() => {});
});

/** One that notes which Widgets it reconciles. */
async function start(
  warmStandby: boolean,
  more: Pick<LeaderElectionOptions, 'scope'> = {},
): Promise<{ operator: Operator; reconciled: readonly string[] }> {
  const { connection } = server;
  const leaderElection = { lease: electionLease, identity: 'me_1', timings: slowTimings, warmStandby, ...more };
  const operator = await connectOperator({ name: 'greeter', environment: {}, log, connection, leaderElection });
  const reconciled: string[] = [];
  operator.manager.controller(Widget, {
    reconcile: async ({ name }) => {
      reconciled.push(name);
      return done;
    },
  });
  running = operator.run(stop.signal);
  running.catch(() => {});
  return { operator, reconciled };
}

/** Another holds the Lease; returns the standby's watch on it. */
async function standsBy() {
  (await server.next({ path: leasePath, method: 'GET' })).json(200, heldBy('other_1', '5'));
  (await server.next({ path: leasesPath, watch: false })).list('5', [heldBy('other_1', '5')]);
  return (await server.next({ path: leasesPath, watch: true })).stream();
}

test('a cold standby is ready when it has observed a leader, and watches only its Lease', async () => {
  const { operator } = await start(false);
  const look = await server.next({ path: leasePath });
  expect(operator.readiness()).toEqual({ ready: false, waitingFor: [], lease: 'ns/greeter' });
  look.json(200, heldBy('other_1', '5'));
  await eventually('it is ready', async () => operator.readiness().ready);
  expect(operator.elector?.isLeading).toBe(false);
  await server.next({ path: leasesPath });
  expect(server.unclaimed).toBe(0);
  await expect(operator.client.get(Widget, { name: 'a', namespace: 'ns' })).rejects.toThrow('does not lead');
  stop.abort();
  await running;
  expect(operator.readiness().ready).toBe(false);
});

test('a standby is ready only while it observes renewals of the Lease', async () => {
  const { operator } = await start(false);
  const lease = await standsBy();
  await eventually('it is ready', async () => operator.readiness().ready);
  const observedAtMs = performance.now();
  const pretendTime = (ms: number) => jest.spyOn(performance, 'now').mockReturnValue(observedAtMs + ms);
  // The Lease is valid for 90 s. Then this standby has as long to take it.
  pretendTime(170_000);
  expect(operator.readiness().ready).toBe(true);
  pretendTime(180_000);
  expect(operator.readiness()).toEqual({ ready: false, waitingFor: [], lease: 'ns/greeter' });
  // Neither a label nor a bookmark is a renewal.
  lease.send('BOOKMARK', heldBy('other_1', '6'));
  const { metadata, spec } = heldBy('other_1', '7');
  lease.send('MODIFIED', { metadata: { ...metadata, labels: { a: 'b' } }, spec });
  lease.send('MODIFIED', { metadata: { ...metadata, resourceVersion: '8' }, spec });
  expect(operator.readiness().ready).toBe(false);
  lease.send('MODIFIED', {
    metadata: { ...metadata, resourceVersion: '9' },
    spec: { ...spec, renewTime: '2026-01-01T00:05:00.000000Z' },
  });
  await eventually('it is ready again', async () => operator.readiness().ready);
});

test('a stopping leader writes its last Events before it releases the Lease', async () => {
  const { operator, reconciled } = await start(false);
  (await server.next({ path: leasePath, method: 'GET' })).refuse(404, 'NotFound');
  (await server.next({ path: leasesPath, method: 'POST' })).json(201, heldBy('me_1', '1'));
  (await server.next({ path: leasePath, method: 'PUT' })).json(200, heldBy('me_1', '2'));
  const list = await server.next({ path: widgetsPath });
  expect(operator.readiness()).toEqual({ ready: false, waitingFor: ['widgets.test.example'] });
  list.list('10', [stored('a', '1')]);
  await eventually('it reconciles', async () => reconciled.length === 1);
  expect(operator.readiness().ready).toBe(true);
  const metrics = await operator.metrics.registry.metrics();
  expect(metrics).toContain('leader_election_master_status{name="greeter"} 1');
  expect(metrics).toContain('leader_election_takeovers_total{name="greeter",reason="absence"} 1');
  expect(metrics).toContain('leader_election_lease_transitions{name="greeter"} 0');

  operator.events.record(Widget, stored('a', '1'), { type: 'Normal', reason: 'Made', action: 'Make', note: 'made' });
  stop.abort();
  const event = await server.next({ method: 'POST' });
  expect(operator.elector?.isLeading).toBe(true);
  expect(operator.readiness()).toEqual({ ready: false, waitingFor: [] });
  event.json(201, {});
  const release = await server.next({ path: leasePath, method: 'PUT' });
  expect(release.body).toMatchObject({ spec: { holderIdentity: '' } });
  expect(release.headers['user-agent']).toBe('greeter/leader-election');
  release.json(200, heldBy('', '3'));
  await running;
  expect(log.messages('info')).toContain('the lease is released');
  expect(await operator.metrics.registry.metrics()).toContain(
    'leader_election_fence_closings_total{name="greeter",reason="stopped"} 1',
  );
});

test('a warm standby fills its caches, and reconciles their objects when it leads', async () => {
  const { operator, reconciled } = await start(true);
  const lease = await standsBy();
  const list = await server.next({ path: widgetsPath });
  expect(operator.readiness()).toEqual({ ready: false, waitingFor: ['widgets.test.example'] });
  list.list('10', [stored('a', '1')]);
  await eventually('it is ready', async () => operator.readiness().ready);
  expect(log.messages('info')).toContain('caches have synced: standing by');

  lease.send('MODIFIED', heldBy('', '6'));
  expect(reconciled).toEqual([]);
  (await server.next({ path: leasePath, method: 'PUT' })).json(200, heldBy('me_1', '7'));
  await eventually('it reconciles', async () => reconciled.length === 1);
  expect(reconciled).toEqual(['a']);
  expect(await operator.metrics.registry.metrics()).toContain(
    'leader_election_takeovers_total{name="greeter",reason="release"} 1',
  );
  expect(log.messages('info')).toContain('workers start');
});

test('a warm standby stops when its signal aborts', async () => {
  const { reconciled } = await start(true);
  await standsBy();
  (await server.next({ path: widgetsPath })).list('10', [stored('a', '1')]);
  stop.abort();
  await running;
  expect(reconciled).toEqual([]);
});

describe.each([false, true])('an operator with a scope (warm standby: %p)', (warmStandby) => {
  const scope = { namespaces: 'all', lookIn: 'ownNamespace' } as const;
  const mark = { labels: { 'greeter/scope': '' }, annotations: { 'greeter/watches': '"all"' } };
  const other = {
    ...heldBy('other_1', '5'),
    metadata: { ...heldBy('other_1', '5').metadata, ...mark, name: 'other', uid: 'other' },
  };
  const conflict = 'other_1 works in all namespaces (lease ns/other)';

  test('waits while another one works, before it contends or lists anything', async () => {
    const { operator } = await start(warmStandby, { scope });
    const look = await server.next({ path: leasesPath });
    expect(operator.readiness()).toEqual({ ready: false, waitingFor: [], unlistedLeases: 'ns' });
    expect(look.query.get('labelSelector')).toBe('greeter/scope');
    look.list('5', [other]);
    await eventually('it says which', async () => operator.readiness().conflict === conflict);
    expect(operator.readiness()).toEqual({ ready: false, waitingFor: [], conflict });
    expect(probeRoutes(operator)['/readyz']()).toEqual({ code: 503, text: `waiting: ${conflict}\n` });
    (await server.next({ path: leasesPath })).list('6', []);
    // The Lease of the other one still counts. Nothing but looks follow.
    (await server.next({})).list('6', []);
    stop.abort();
    await running;
  });

  test('marks its Lease, and releases it without having worked if another one has begun meanwhile', async () => {
    const { operator, reconciled } = await start(warmStandby, { scope });
    (await server.next({ path: leasesPath })).list('5', []);
    (await server.next({ path: leasePath, method: 'GET' })).refuse(404, 'NotFound');
    const claim = await server.next({ path: leasesPath, method: 'POST' });
    expect(claim.body).toMatchObject({ metadata: mark });
    claim.json(201, heldBy('me_1', '1'));
    (await server.next({ path: leasePath, method: 'PUT' })).json(200, heldBy('me_1', '2'));
    const look = await server.next({ path: leasesPath, method: 'GET' });
    expect(operator.readiness()).toEqual({ ready: false, waitingFor: [], unlistedLeases: 'ns' });
    expect(probeRoutes(operator)['/readyz']()).toEqual({
      code: 503,
      text: 'waiting for the list of leases in ns: another operator may work in the same namespaces\n',
    });
    look.list('5', [other]);
    const release = await server.next({ path: leasePath, method: 'PUT' });
    expect(release.body).toMatchObject({ spec: { holderIdentity: '' } });
    release.json(200, heldBy('', '3'));
    await expect(running).rejects.toThrow(`two operators must not watch the same namespace: ${conflict}`);
    expect(reconciled).toEqual([]);
    expect(operator.readiness().ready).toBe(false);
  });
});
