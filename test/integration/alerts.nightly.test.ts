import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Lease, ResourceQuota } from '@echoperator/runtime/kinds';
import type { FaultProxy, RequestFilter } from '@echoperator/testing';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { parse } from 'yaml';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { Pet } from '../../src/kinds/pet/kind.ts';
import { PostgresWriter } from '../../src/kinds/postgres-writer/kind.ts';
import { dashboardPicture } from '../../testkit/dashboard-picture.ts';
import { panelQueries } from '../../testkit/dashboards.ts';
import { echoManifest, echoWithReason } from '../../testkit/echos.ts';
import { eventually } from '../../testkit/eventually.ts';
import { codeIn, tableAfter } from '../../testkit/markdown.ts';
import { OperatorProcess } from '../../testkit/operator-process.ts';
import { PetStoreProcess } from '../../testkit/pet-store-process.ts';
import { PostgresServer } from '../../testkit/postgres-server.ts';
import { type ActiveAlert, PrometheusServer } from '../../testkit/prometheus-server.ts';
import { proxiedKubeconfig } from '../../testkit/proxied-kubeconfig.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { customManifest, withReason } from '../../testkit/with-reason.ts';

// A fault, and its end, each take minutes of the alerts' time, which passes this many times as fast.
const faster = 15;
jest.setTimeout(600_000);

const root = join(import.meta.dirname, '../..');
const target = { job: 'echoperator', namespace: 'operators' } as const;

let resources: AsyncDisposableStack;
let cluster: TestCluster;
let namespace: string;
let folder: string;
let proxy: FaultProxy;
let kubeconfig: string;
let database: PostgresServer;
let store: PetStoreProcess;
let prometheus: PrometheusServer;
const replicas = new Map<string, OperatorProcess>();
let started = 0;

beforeAll(async () => {
  resources = new AsyncDisposableStack();
  folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'alerts-'));
  resources.defer(() => rm(folder, { recursive: true, force: true }));
  cluster = await TestCluster.connect();
  resources.defer(() => cluster.close());
  namespace = await cluster.namespace();
  ({ proxy, kubeconfig } = await proxiedKubeconfig(cluster.kubeconfig, folder));
  resources.use(proxy);
  database = resources.use(await PostgresServer.start());
  await database.query(`CREATE ROLE writer LOGIN PASSWORD 'w'; CREATE TABLE students
    (id text PRIMARY KEY, name text, age integer, country text);
    GRANT SELECT, INSERT, UPDATE, DELETE ON students TO writer`);
  store = await PetStoreProcess.start();
  resources.defer(async () => void (store.isRunning && (await store.stop())));
  prometheus = resources.use(await PrometheusServer.start(await acceleratedRules(), folder));
  resources.defer(async () => void (await Promise.all([...replicas.values()].map((each) => each.stop('SIGKILL')))));
  await startReplica();
  await startReplica();
});

afterAll(() => resources?.disposeAsync());

/** The chart's alerts, with every duration and every age divided. */
async function acceleratedRules(): Promise<object> {
  const text = (await readFile(join(root, 'charts/echoperator/files/alerts.yaml'), 'utf8'))
    .replaceAll('SELECTOR', `namespace="${target.namespace}",pod=~"echoperator-.+"`)
    .replaceAll('LEASE', 'echoperator')
    .replaceAll(/\[(\d+)m\]/g, (_, minutes) => `[${(Number(minutes) * 60) / faster}s]`)
    .replaceAll(
      /\[(\d+)m:(\d+)s\]/g,
      (_, minutes, step) => `[${(Number(minutes) * 60) / faster}s:${Number(step) / faster}s]`,
    )
    .replaceAll(/for: (\d+)m/g, (_, minutes) => `for: ${(Number(minutes) * 60) / faster}s`)
    // Not the 20 minutes of a silent watch: bookmarks come once a minute.
    .replaceAll(/> (180|300)\b/g, (_, seconds) => `> ${Number(seconds) / faster}`);
  return parse(text);
}

/** Starts another replica, and has it scraped. */
async function startReplica(): Promise<void> {
  started += 1;
  const name = `echoperator-${started}`;
  const replica = await OperatorProcess.start(kubeconfig, {
    NAMESPACE: namespace,
    WATCH_NAMESPACES: namespace,
    CONTROLLERS: 'echo,pet,postgresWriter',
    HA_ENABLED: 'true',
    HA_NODE_ID: name,
    // The cut watches of a fault must not cost the Lease.
    HA_LEASE_DURATION_SECONDS: '15',
    RESYNC_SECONDS: '40',
    PETSTORE_ADDRESS: store.address,
    PETSTORE_TIMEOUT_SECONDS: '3',
    PSQL_HOST: database.host,
    PSQL_PORT: String(database.port),
    PSQL_SSLROOTCERT: database.caFile,
    PSQL_USER: 'writer',
    PSQL_PASSWORD: 'w',
  });
  replicas.set(name, replica);
  await scrapeReplicas();
}

async function stopReplica(name: string): Promise<void> {
  const replica = replicas.get(name);
  replicas.delete(name);
  await replica?.stop();
  await scrapeReplicas();
}

const scrapeReplicas = (): Promise<void> =>
  prometheus.scrape(
    [...replicas].map(([pod, { metricsPort }]) => ({
      port: metricsPort,
      labels: { ...target, pod, __metrics_path__: '/metrics' },
    })),
  );

async function holder(): Promise<string> {
  const lease = await cluster.client.get(Lease, { namespace, name: 'echoperator' });
  return lease.spec?.holderIdentity?.split('_')[0] ?? '';
}

const named = (alerts: readonly ActiveAlert[], name: string): readonly ActiveAlert[] =>
  alerts.filter(({ labels, state }) => labels.alertname === name && state === 'firing');

/** Waits until an alert fires, and checks its texts. */
async function fires(name: string, labels: Readonly<Record<string, string>> = {}): Promise<void> {
  const wanted = (alert: ActiveAlert): boolean =>
    Object.entries(labels).every(([label, value]) => alert.labels[label] === value);
  const alert = await eventually(
    `${name} fires`,
    async () => named(await prometheus.alerts(), name).find(wanted),
    240_000,
  );
  for (const text of Object.values(alert.annotations)) {
    expect(text).not.toMatch(/<no value>|error|SELECTOR|LEASE|\{\{/);
  }
}

const resolves = (name: string): Promise<unknown> =>
  eventually(`${name} resolves`, async () => named(await prometheus.alerts(), name).length === 0, 240_000);

let echos = 0;
/** Creates an Echo and returns its name. */
async function createEcho(): Promise<string> {
  echos += 1;
  const name = `echo-${echos}`;
  await cluster.client.create(Echo, echoManifest({ namespace, name }, { message: 'hello' }));
  return name;
}

const thor = { name: 'Thor', type: 'dog', birthday: '2021-04-01T00:00:00Z' } as const;
const jane = { table: 'students', name: 'Jane', age: 21, country: 'Peru' };

/** Creates an object of each kind, and waits until it is reconciled. */
async function load(round: number): Promise<void> {
  const pet = { namespace, name: `pet-${round}` };
  const writer = { namespace, name: `writer-${round}` };
  const echo = { namespace, name: await createEcho() };
  await cluster.client.create(Pet, customManifest(pet, { ...thor, name: `Thor ${round}` }));
  await cluster.client.create(PostgresWriter, customManifest(writer, { ...jane, age: round + 20 }));
  await withReason(cluster, Pet, pet, 'Stored');
  await withReason(cluster, PostgresWriter, writer, 'RowWritten');
  await echoWithReason(cluster, echo, 'Printing');
}

/** Changes what {@link load} has created. */
async function change(round: number): Promise<void> {
  const body = { spec: { name: `Changed ${round}` } };
  await cluster.client.patch(Pet, { namespace, name: `pet-${round}` }, { type: 'merge', body });
  await cluster.client.patch(PostgresWriter, { namespace, name: `writer-${round}` }, { type: 'merge', body });
}

async function remove(round: number): Promise<void> {
  await cluster.client.delete(Pet, { namespace, name: `pet-${round}` });
  await cluster.client.delete(PostgresWriter, { namespace, name: `writer-${round}` });
}

test('every query of every panel returns data', async () => {
  const beganAtMs = performance.now();
  for (let round = 1; performance.now() - beganAtMs < 60_000; round += 1) {
    await load(round);
    if (round % 3 === 0) await change(round - 1);
    if (round % 5 === 0) await remove(round - 2);
  }
  // A step of half a minute would need a longer run.
  const queries = panelQueries({ ...target, __rate_interval: '10s', controller: '.+' }).map((each) => ({
    ...each,
    expr: each.expr.replaceAll(/:30s\]/g, ':2s]'),
  }));
  const seconds = (performance.now() - beganAtMs) / 1000;
  const results = new Map(
    await Promise.all(queries.map(async (each) => [each, await prometheus.queryRange(each.expr, seconds, 2)] as const)),
  );
  const hasNumber = ({ values }: { values: readonly (readonly [number, string])[] }): boolean =>
    values.some(([, value]) => Number.isFinite(Number(value)));
  const empty = [...results].filter(([, series]) => !series.some(hasNumber));
  expect(empty.map(([{ dashboard, panel, expr }]) => `${dashboard}: ${panel}: ${expr}`)).toEqual([]);
  const { DASHBOARD_PICTURES: pictures } = process.env;
  if (pictures === undefined) return;
  for (const dashboard of new Set(queries.map((each) => each.dashboard))) {
    const shown = [...results].filter(([each]) => each.dashboard === dashboard);
    await writeFile(
      join(pictures, `dashboard-${dashboard}.svg`),
      dashboardPicture(`The dashboard ${dashboard}, drawn from a run of the operator`, shown),
    );
  }
});

test('every expression of docs/operations.md returns data', async () => {
  const page = await readFile(join(root, 'docs/operations.md'), 'utf8');
  const expressions = tableAfter(page, '| question | expression |')
    .map(({ expression }) => codeIn(expression))
    // What it is compared with is exceeded only in an emergency, and nothing is forbidden here.
    .map((expression) => expression.replace(/ > 1$/, '').replace('{code="403"}', '{code="200"}'));
  const results = await Promise.all(expressions.map((expression) => prometheus.query(expression)));
  const hasNumber = ({ value }: { readonly value: readonly [number, string] }) => Number.isFinite(Number(value[1]));
  expect(expressions.filter((_, index) => !results[index]?.some(hasNumber))).toEqual([]);
});

test('nothing fires without a fault', async () => {
  expect(await prometheus.alerts()).toEqual([]);
});

test('EchoperatorNoLeader fires while no replica runs', async () => {
  const names = [...replicas.keys()];
  await Promise.all(names.map(stopReplica));
  await fires('EchoperatorNoLeader');
  await startReplica();
  await startReplica();
  await resolves('EchoperatorNoLeader');
});

test('EchoperatorLeadershipFlapping fires when leaders are stopped one after the other', async () => {
  const isFiring = async () => named(await prometheus.alerts(), 'EchoperatorLeadershipFlapping').length > 0;
  for (let stops = 0; stops < 30 && !(await isFiring()); stops += 1) {
    const leader = await eventually('a replica leads', async () => {
      const name = await holder();
      return replicas.has(name) && name;
    });
    await stopReplica(leader);
    await startReplica();
  }
  await fires('EchoperatorLeadershipFlapping');
  await resolves('EchoperatorLeadershipFlapping');
});

test('EchoperatorReconcilesFailing fires while a quota refuses Jobs', async () => {
  // The resyncs of Echos that have a Job would succeed, and be more than half of all reconciles.
  await cluster.client.deleteCollection(Echo, { namespace });
  const quota = { name: 'none', namespace };
  await cluster.client.create(ResourceQuota, { metadata: quota, spec: { hard: { 'count/jobs.batch': '0' } } });
  await eventually('the quota is in force', async () => {
    const { status } = await cluster.client.get(ResourceQuota, quota);
    return status?.hard?.['count/jobs.batch'] === '0';
  });
  try {
    // Each is tried again once a minute or more often.
    await Promise.all(Array.from({ length: 20 }, createEcho));
    await fires('EchoperatorReconcilesFailing', { controller: 'echo' });
  } finally {
    await cluster.client.delete(ResourceQuota, quota);
  }
  await resolves('EchoperatorReconcilesFailing');
});

test('EchoperatorCacheStale fires while Jobs can be neither listed nor watched', async () => {
  const ofJobs: RequestFilter = ({ resource, verb }) => resource === 'jobs' && (verb === 'list' || verb === 'watch');
  const refused = proxy.inject({ type: 'error-response', status: 500, reason: 'InternalError' }, { on: ofJobs });
  const cut = proxy.inject({ type: 'cut', how: 'reset' }, { on: ofJobs });
  await eventually('the watch is cut', async () => cut.count > 0);
  await eventually('the next one is refused', async () => refused.count > 0);
  cut.off();
  await fires('EchoperatorCacheStale', { resource: 'jobs.batch' });
  refused.off();
  await resolves('EchoperatorCacheStale');
});

test('EchoperatorKeysStuck fires while the API server responds slowly', async () => {
  const creations: RequestFilter = ({ resource, verb }) => resource === 'jobs' && verb === 'create';
  // A client ends a request without a response after half a minute, but not a slow one.
  const slow = proxy.inject({ type: 'slow', bytesPerSecond: 10 }, { on: creations });
  let name: string;
  try {
    name = await createEcho();
    await fires('EchoperatorKeysStuck', { controller: 'echo' });
  } finally {
    slow.off();
  }
  await resolves('EchoperatorKeysStuck');
  await echoWithReason(cluster, { namespace, name }, 'Printing');
});

test('EchoperatorExternalSystemDown fires while the database and the pet store are down', async () => {
  await Promise.all([database.stop(), store.stop()]);
  // Only an object that waits calls a system that is down.
  const [pet, writer] = ['pet', 'writer'].map((name) => ({ namespace, name: `${name}-waiting` }) as const);
  await cluster.client.create(Pet, customManifest(pet!, { ...thor, name: 'Odin' }));
  await cluster.client.create(PostgresWriter, customManifest(writer!, jane));
  await Promise.all([
    fires('EchoperatorExternalSystemDown', { system: 'postgres' }),
    fires('EchoperatorExternalSystemDown', { system: 'petstore' }),
  ]);
  await Promise.all([database.restart(), store.restart()]);
  await resolves('EchoperatorExternalSystemDown');
  await withReason(cluster, Pet, pet!, 'Stored');
  await withReason(cluster, PostgresWriter, writer!, 'RowWritten');
});

test('no alert fires at the end', async () => {
  await eventually('every alert resolves', async () => (await prometheus.alerts()).length === 0, 240_000);
});
