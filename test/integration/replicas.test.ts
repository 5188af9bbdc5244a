import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import { Job, Lease } from '@echoperator/runtime/kinds';
import { FaultProxy, type RequestFilter } from '@echoperator/testing';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { stringify } from 'yaml';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { controllers, kinds } from '../../src/operator.ts';
import { echoManifest } from '../../testkit/echos.ts';
import { eventually } from '../../testkit/eventually.ts';
import { OperatorProcess } from '../../testkit/operator-process.ts';
import { nodeFlagsOf, publishedPrograms, type ShippedPrograms } from '../../testkit/shipped-program.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';

/** A leader keeps its Lease although the API server of a busy machine does not answer for some seconds. */
const steady = { HA_LEASE_DURATION_SECONDS: '10', HA_RENEW_DEADLINE_SECONDS: '8', HA_RETRY_PERIOD_SECONDS: '0.5' };
let folder: string;
let cluster: TestCluster;
let namespace: string;
let started: OperatorProcess[];

beforeAll(async () => {
  cluster = await TestCluster.connect();
  folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'replicas-'));
});
afterAll(async () => {
  await cluster?.close();
  await rm(folder, { recursive: true, force: true });
});
beforeEach(async () => {
  namespace = await cluster.namespace();
  started = [];
});
afterEach(async () => {
  await Promise.all(started.map((operator) => operator.stop('SIGKILL')));
});

/** One of several, which work in the test's namespace alone and contend for a Lease there. */
async function replica(
  name: string,
  settings: Readonly<Record<string, string>> = {},
  kubeconfig = cluster.kubeconfig,
  programs?: ShippedPrograms,
): Promise<OperatorProcess> {
  const own = { NAMESPACE: namespace, WATCH_NAMESPACES: namespace, HA_ENABLED: 'true', HA_NODE_ID: name };
  const operator = await OperatorProcess.start(kubeconfig, { ...own, ...settings }, programs);
  started.push(operator);
  return operator;
}

const leaseKey = () => ({ namespace, name: 'echoperator' });
const holder = async (): Promise<string> => {
  const lease = await cluster.client.get(Lease, leaseKey());
  return lease.spec?.holderIdentity?.split('_')[0] ?? '';
};
const leads = (name: string): Promise<unknown> => eventually(`${name} leads`, async () => (await holder()) === name);

/** The operator that leads does what it is for. */
async function works(name: string, where = namespace): Promise<void> {
  await cluster.client.create(Echo, echoManifest({ namespace: where, name }, { message: name }));
  await cluster.job({ namespace: where, name });
}

const writes = (metrics: string): readonly string[] =>
  metrics.split('\n').filter((line) => /^rest_client_requests_total\{.*method="(POST|PUT|PATCH|DELETE)"/.test(line));

/** When the last line with this message was logged, in ms since 1970. */
function loggedAt(output: string, message: string): number {
  const line = output.split('\n').findLast((text) => text.includes(`"msg":"${message}"`));
  if (line === undefined) throw new Error(`never logged: ${message}; but: ${output}`);
  return JSON.parse(line).time;
}

/**
 * A second is promised. The bound tells that from a process that awaits its reconciles first, which take 20 s at most.
 */
const atOnceMs = 10_000;

const isJobCreation: RequestFilter = ({ verb, resource }) => verb === 'create' && resource === 'jobs';

/** Starts a leader that waits for the reply to a write, in a reconcile that never ends. */
async function busyLeader(proxy: FaultProxy): Promise<OperatorProcess> {
  const kubeconfig = join(folder, 'proxied');
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster: { server: proxy.connection.server.origin, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'u', user: {} }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  };
  await writeFile(kubeconfig, stringify(config));
  const main = join(import.meta.dirname, 'environment/deaf-operator.ts');
  const deaf = { ...publishedPrograms(), operator: { main, nodeFlags: await nodeFlagsOf('operator') } };
  const operator = await replica('first', { ...steady, SHUTDOWN_TIMEOUT_SECONDS: '20' }, kubeconfig, deaf);
  await leads('first');
  const silence = proxy.inject({ type: 'silence' }, { on: isJobCreation });
  await cluster.client.create(Echo, echoManifest({ namespace, name: 'waits' }, { message: 'waits' }));
  await eventually('it creates a Job', async () => silence.count > 0);
  return operator;
}

/**
 * Waits until the leader exits with 1, and expects that it says why.
 *
 * @returns the time from `sinceMs` until then, in ms
 */
async function endWithoutLease(operator: OperatorProcess, sinceMs: number, why: RegExp): Promise<number> {
  const { exitCode, output } = await operator.waitForExit();
  const tookMs = performance.now() - sinceMs;
  expect(output).toContain('the lease is lost: starting no new work');
  expect(output).toMatch(why);
  expect(exitCode).toBe(1);
  return tookMs;
}

const startProxy = async (): Promise<FaultProxy> =>
  FaultProxy.start({ upstream: await kubeconfigConnection(cluster.kubeconfig) });

test('one replica leads; after SIGTERM it hands over, and the other one continues', async () => {
  const first = await replica('first');
  await leads('first');
  const second = await replica('second');
  expect(await first.metrics()).toMatch(/^leader_election_master_status\{name="echoperator"\} 1$/m);
  const standby = await second.metrics();
  expect(standby).toMatch(/^leader_election_master_status\{name="echoperator"\} 0$/m);
  await works('by-the-first');

  const { exitCode, output } = await first.stop();
  expect(exitCode).toBe(0);
  const order = ['asked to stop', 'the lease is released', 'operator has stopped'];
  expect(order.map((message) => loggedAt(output, message))).toEqual(
    order.map((message) => loggedAt(output, message)).toSorted((one, other) => one - other),
  );
  await leads('second');
  await works('by-the-second');
  expect((await second.stop()).exitCode).toBe(0);
  expect(await holder()).toBe('');
});

test('after a kill the Lease expires, and the other replica acquires it', async () => {
  const first = await replica('first', steady);
  await leads('first');
  await replica('second', steady);
  await first.stop('SIGKILL');
  expect(await holder()).toBe('first');
  await leads('second');
  await works('by-the-second');
});

test('a leader whose Lease names another holder exits at once', async () => {
  await using proxy = await startProxy();
  const operator = await busyLeader(proxy);
  const body = { spec: { holderIdentity: 'somebody-else', renewTime: new Date().toISOString().replace('Z', '000Z') } };
  const lostAtMs = performance.now();
  await cluster.client.patch(Lease, leaseKey(), { type: 'merge', body });
  expect(await endWithoutLease(operator, lostAtMs, /the lease \S+ is held by somebody-else/)).toBeLessThan(atOnceMs);
  expect(await holder()).toBe('somebody-else');
});

test('a leader whose renewals get no reply exits at its deadline, before another replica may lead', async () => {
  await using proxy = await startProxy();
  const operator = await busyLeader(proxy);
  const silentAtMs = performance.now();
  const silence = proxy.inject({ type: 'silence' });
  const tookMs = await endWithoutLease(operator, silentAtMs, /the lease was not renewed within 8 s/);
  expect(tookMs).toBeLessThan(Number(steady.HA_RENEW_DEADLINE_SECONDS) * 1000 + atOnceMs);
  expect(silence.count).toBeGreaterThan(0);
});

test('a warm standby fills its caches and writes nothing before it leads', async () => {
  const first = await replica('first');
  await leads('first');
  const standby = await replica('second', { HA_WARM_STANDBY: 'true' });
  await works('by-the-first');
  const metrics = await standby.metrics();
  expect(writes(metrics)).toEqual([]);
  expect(metrics).toMatch(/^workqueue_adds_total\{name="echo",controller="echo"\} 0$/m);
  await first.stop();
  await leads('second');
  await works('by-the-second');
  expect(writes(await standby.metrics())).not.toEqual([]);
  const { output } = await standby.stop();
  expect(loggedAt(output, 'caches have synced: standing by')).toBeLessThan(loggedAt(output, 'leading'));
});

test('without high availability, an operator outside the cluster acquires no Lease', async () => {
  const operator = await replica('alone', { HA_ENABLED: 'false' });
  await works('alone');
  expect((await cluster.client.list(Lease, { namespace })).items).toEqual([]);
  expect((await operator.stop()).exitCode).toBe(0);
});

test('an operator that watches one namespace needs a role only there, and changes no other namespace', async () => {
  const other = await cluster.namespace();
  const operator = await replica('limited', { CONTROLLERS: 'echo' }, await kubeconfigWithRoles());
  await cluster.client.create(Echo, echoManifest({ namespace: other, name: 'not-ours' }, { message: 'hello' }));
  await works('ours');
  const { output } = await operator.stop();
  expect((await cluster.client.list(Job, { namespace: other })).items).toEqual([]);
  expect(output).not.toContain('Forbidden');
  expect(output).not.toContain('"level":50');
});

/** Returns a kubeconfig of a service account with the Echo controller's permissions in only the test's namespace. */
async function kubeconfigWithRoles(): Promise<string> {
  const kubectl = (await ensureBinaries(['kubectl'])).get('kubectl') ?? '';
  const run = async (args: readonly string[], input = '') =>
    (await execa(kubectl, args, { env: { KUBECONFIG: cluster.kubeconfig }, input })).stdout;
  const rule = (apiGroup: string, resource: string, ...verbs: readonly string[]) => ({
    apiGroups: [apiGroup],
    resources: [resource],
    verbs,
  });
  const metadata = { name: 'limited', namespace };
  const rbac = 'rbac.authorization.k8s.io';
  const objects = [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
    {
      apiVersion: `${rbac}/v1`,
      kind: 'Role',
      metadata,
      rules: [
        ...controllers.echo.permissions,
        // Their controllers are off, which their status says.
        ...kinds
          .filter((kind) => kind !== Echo)
          .flatMap(({ group, plural }) => [
            rule(group, plural, 'get', 'list', 'watch'),
            rule(group, `${plural}/status`, 'patch'),
          ]),
        rule('events.k8s.io', 'events', 'create', 'patch'),
        rule('coordination.k8s.io', 'leases', 'get', 'list', 'watch', 'create', 'update'),
      ],
    },
    {
      apiVersion: `${rbac}/v1`,
      kind: 'RoleBinding',
      metadata,
      roleRef: { apiGroup: rbac, kind: 'Role', name: 'limited' },
      subjects: [{ kind: 'ServiceAccount', ...metadata }],
    },
  ];
  await run(['apply', '--filename=-'], JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }));
  const token = await run(['create', 'token', 'limited', '--namespace', namespace]);
  const path = join(folder, 'limited');
  const config = JSON.parse(await run(['config', 'view', '--flatten', '--raw', '--output=json']));
  config.users = config.users.map(({ name }: { readonly name: string }) => ({ name, user: { token } }));
  await writeFile(path, JSON.stringify(config));
  return path;
}
