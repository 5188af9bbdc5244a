import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type ConnectedClient, createClient, isNotFound, kubeconfigConnection } from '@echoperator/runtime/client';
import { CustomResourceDefinition, EndpointSlice, Lease, Namespace, Pod, Secret } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { eventually } from '../../testkit/eventually.ts';
import { codeBlocks } from '../../testkit/markdown.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { Cluster, removeClusterOnExit, type Watchdog } from '../../tools/cluster/index.ts';
import { ensureDebianPackages } from '../../tools/debian.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';
import { createOperator, installOperator, installWebhooks } from './environment/created-operator.ts';
import { buildOperatorImage } from './environment/operator-image.ts';
import { offlineEnvironment, prepared } from './environment/prepared.ts';
import { EmptyProject } from './environment/project.ts';
import { type FailedRequest, WebhookLoad } from './environment/webhook-load.ts';

/** How many admissions, and how many conversions. */
const count = Number(process.env.WEBHOOK_REQUESTS ?? 10_000);
/** Half of them are admissions. Two processors carry about twice as many. */
const perSecond = Number(process.env.WEBHOOK_REQUESTS_PER_SECOND ?? 60);

jest.setTimeout(2_400_000);

const clusterName = 't-webhooks';
const name = 'my-operator';
const secret = { namespace: name, name: `${name}-webhook-certificates` };
const { folder, tarballs, node24 } = prepared();

let watchdog: Watchdog;
let cluster: Cluster;
let admin: TestCluster;
let operator: EmptyProject;
let page: string;
/** Of the load. Repeats what the API server asks to repeat, as every client does; see {@link codes}. */
let client: ConnectedClient;
/** How many responses of each code the load has got, repeated requests included. */
const codes = new Map<string, number>();

/** The commands under a heading of a page. */
function commandsUnder(heading: string): readonly string[] {
  const section = page.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? '';
  // A block needs an empty line before it, also the first one.
  return codeBlocks(`\n${section}`).flatMap(({ language, text }) => (language === '' ? [text.trimEnd()] : []));
}

/** Runs commands as the page says, but with the images of this test and the chosen Helm. */
const run = (commands: string): Promise<string> =>
  operator.run(
    `set -e\n${commands}`
      .replace(/^docker .*\n/m, '')
      .replaceAll('REGISTRY', 'registry.example.com')
      .replaceAll(/^helm/gm, '"$HELM"'),
  );

async function loadImage(tag: string): Promise<void> {
  await operator.run('npm run build');
  const image = await buildOperatorImage({
    operator: operator.folder,
    node: join(node24, 'node'),
    name: `registry.example.com/${name}:${tag}`,
    folder: join(folder, `webhooks-image-${tag}`),
  });
  await cluster.loadImage(image);
}

beforeAll(async () => {
  page = await readFile(join(import.meta.dirname, '../../docs/version-and-webhook.md'), 'utf8');
  // A killed run may have left it.
  await Cluster.down(clusterName);
  watchdog = await removeClusterOnExit(clusterName);
  cluster = await Cluster.up({ name: clusterName, nodes: 1 });
  admin = await TestCluster.at(cluster.kubeconfigPath, cluster.auditLog);
  client = createClient(await kubeconfigConnection(cluster.kubeconfigPath), {
    fieldManager: 'load',
    connections: 100,
    observe: (_, code) => codes.set(code, (codes.get(code) ?? 0) + 1),
  });
  const programs = await ensureBinaries(['kubectl', 'helm4']);
  await ensureDebianPackages(['buildah']);
  const environment = offlineEnvironment();
  const parent = await EmptyProject.make(join(folder, 'create-webhooks'), {
    ...environment,
    PATH: [environment.PATH, dirname(programs.get('kubectl') ?? '')].join(':'),
    HELM: programs.get('helm4') ?? '',
    KUBECONFIG: cluster.kubeconfigPath,
    // kubectl and helm would ask a proxy for what is on this machine.
    NO_PROXY: '10.0.0.0/8',
  });
  operator = await createOperator(parent, tarballs, `${name} --kind Greeting --group example.com`);
  await operator.run(installOperator(tarballs));
  await operator.run('npm run generate');
});

afterAll(async () => {
  await client?.close();
  await admin?.disconnect();
  await cluster?.down();
  await watchdog?.release();
});

/** The operator's pods that are not being deleted. */
async function pods(): Promise<readonly Pod[]> {
  const { items } = await admin.client.list(Pod, { namespace: name });
  return items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
}

async function leader(): Promise<string> {
  const { spec } = await admin.client.get(Lease, { namespace: name, name });
  return (spec?.holderIdentity ?? '').replace(/_[^_]*$/, '');
}

const isReady = ({ status }: Pod): boolean =>
  status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false;

const settled = (): Promise<true> =>
  eventually('two replicas are ready, and one of them leads', async () => {
    const found = await pods();
    const holder = await leader();
    return found.length === 2 && found.every(isReady) && found.some(({ metadata }) => metadata.name === holder);
  });

/** The logs of the replicas that run now have no line about a missing right. */
async function requireRights(): Promise<void> {
  for (const { metadata } of await pods()) {
    const log = await cluster.kubectl(['logs', metadata.name, '--namespace', name]);
    expect(log).toContain('serving a certificate');
    expect(log.split('\n').filter((line) => /forbidden|"code":403|are not checked/i.test(line))).toEqual([]);
  }
}

/** Every certificate that is served was issued by an authority that every `caBundle` has: see the load. */
const servedCertificate = async (): Promise<string> => (await admin.client.get(Secret, secret)).data?.['tls.crt'] ?? '';

/** Replaces the authority, as at the end of its lifetime, and waits until its certificate is in the Secret. */
async function rotate(): Promise<void> {
  const before = await servedCertificate();
  const body = { data: { 'ca.key': Buffer.from('lost').toString('base64') } };
  await admin.client.patch(Secret, secret, { type: 'merge', body });
  await eventually('the Secret has a certificate of another authority', async () => {
    const now = await servedCertificate();
    return now !== '' && now !== before;
  });
}

/** Deletes the leader's pod: SIGTERM. Waits until another replica leads, and both are ready. */
async function replaceLeader(): Promise<void> {
  const before = await leader();
  await admin.client.delete(Pod, { namespace: name, name: before });
  await eventually('another replica leads', async () => ![before, ''].includes(await leader()));
  const key = { namespace: name, name: before };
  await eventually('its pod is gone', () => admin.client.get(Pod, key).then(() => false, isNotFound));
  await settled();
}

const helm = (words: string): Promise<string> => run(`helm ${words} --namespace ${name} --wait --timeout 150s`);
const upgrade = (tag: string, ...flags: readonly string[]): Promise<string> =>
  helm(
    `upgrade ${name} chart --reset-values --set image.repository=registry.example.com/${name} --set image.tag=${tag} ${flags.join(' ')}`,
  );

/** The sum of a counter of the API server for the webhooks of this operator. */
async function counted(metric: string, labels = ''): Promise<number> {
  const lines = (await admin.metrics()).split('\n').filter((line) => line.startsWith(metric) && line.includes(labels));
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

const show = (failures: readonly FailedRequest[], sinceMs: number) =>
  failures.map(({ request, startedMs, endedMs, problem }) => {
    const times = [startedMs, endedMs].map((ms) => (ms - sinceMs).toFixed(0));
    return `${times.join(' to ')} ms, ${request}: ${problem}`;
  });

test('the operator of the tutorial gets a version and a webhook by docs/version-and-webhook.md', async () => {
  await loadImage('0.1.0');
  const flags = `--create-namespace --set image.repository=registry.example.com/${name}`;
  await helm(`install ${name} chart ${flags}`);

  const files = ['src/greeting.ts', 'src/webhooks.ts', 'src/main.ts', 'src/print-webhooks.ts'];
  const texts = codeBlocks(page).flatMap(({ language, text }) => (language === 'ts' ? [text] : []));
  expect(texts).toHaveLength(files.length);
  expect(commandsUnder('Declare the version')).toEqual([installWebhooks]);
  await operator.run(installWebhooks);
  for (const [i, file] of files.entries()) await operator.write(file, texts[i] ?? '');
  for (const file of ['test/integration.ts', 'test/perturb.ts']) {
    const text = await operator.read(file);
    const replaced = text.replace('(controllers)', '(controllers, { isStoredVersionOnly: true })');
    expect(replaced).not.toBe(text);
    await operator.write(file, replaced);
  }
  for (const command of commandsUnder('Add it to the chart')) await run(command);
  // Shorter than on the page, so that certificates are renewed while the tests run.
  const settings = await operator.read('src/webhooks.ts');
  const certificates = '  certificates: { servingLifetimeMs: 180_000, propagationMs: 10_000 },\n';
  await operator.write(
    'src/webhooks.ts',
    settings.replace(/^ {2}kinds: .*\n/m, (line) => `${line}${certificates}`),
  );

  await loadImage('0.2.0');
  for (const command of commandsUnder('Release it')) await run(command);
  const [commands = '', refused = '', ...others] = commandsUnder('Try it');
  expect(others).toEqual([]);
  expect(await run(commands)).toMatch(/A cup of tea\?en\S+$/);
  const [refusal = 'no refusal'] = codeBlocks(page).flatMap(({ language, text }) =>
    language === 'text' ? [text.trim()] : [],
  );
  await expect(run(refused)).rejects.toThrow(refusal);
  await settled();
  await requireRights();
});

test('no request fails while certificates, leaders and releases change', async () => {
  await loadImage('0.3.0');
  const namespace = 'load';
  await admin.client.create(Namespace, { metadata: { name: namespace } });
  const total = async () => ({
    validations: await counted('apiserver_admission_webhook_request_total', 'validate.greetings.example.com'),
    defaults: await counted('apiserver_admission_webhook_request_total', 'default.greetings.example.com'),
    conversions: await counted('apiserver_conversion_webhook_request_total'),
    errors:
      (await counted('apiserver_admission_webhook_request_total', 'code="600"')) +
      (await counted('apiserver_admission_webhook_rejection_count', 'error_type="calling_webhook_error"')) +
      (await counted('apiserver_conversion_webhook_request_total', 'result="failure"')),
  });
  const before = await total();
  const startedMs = performance.now();
  const load = WebhookLoad.start({ client, namespace, perSecond });
  const disturbances: readonly (readonly [string, () => Promise<unknown>])[] = [
    ['authority replaced', rotate],
    ['leader stopped', replaceLeader],
    [
      'restarted',
      () =>
        run(`kubectl rollout restart deployment/${name} --namespace ${name}
      kubectl rollout status deployment/${name} --namespace ${name} --timeout=120s`),
    ],
    ['upgraded', () => upgrade('0.3.0', '--set resources.requests.cpu=20m')],
    ['authority replaced after the upgrade', rotate],
    ['rolled back', () => helm(`rollback ${name}`)],
    ['leader stopped while the authority is replaced', () => Promise.all([rotate(), replaceLeader()])],
    ['upgraded while the authority is replaced', () => Promise.all([rotate(), upgrade('0.3.0')])],
    ['rolled back while the authority is replaced', () => Promise.all([rotate(), helm(`rollback ${name}`)])],
  ];
  const isEnough = () => load.admissions >= count && load.conversions >= count;
  try {
    for (let i = 0; i < disturbances.length || !isEnough(); i += 1) {
      const [what = '', disturb] = disturbances[i % disturbances.length] ?? [];
      const [failed, sinceMs] = [load.failures.length, performance.now()];
      await disturb?.();
      await settled();
      await requireRights();
      const seconds = ((performance.now() - sinceMs) / 1000).toFixed(1);
      process.stdout.write(`${what}: ${seconds} s, ${load.failures.length - failed} failed requests\n`);
      for (const line of show(load.failures.slice(failed, failed + 10), sinceMs)) process.stdout.write(`  ${line}\n`);
    }
  } finally {
    await load.stop();
  }
  const seconds = (performance.now() - startedMs) / 1000;
  const after = await total();
  process.stdout.write(
    `${load.admissions} admissions, ${load.conversions} conversions in ${seconds.toFixed(0)} s; ` +
      `p50 ${load.quantileMs(0.5).toFixed(0)} ms, p99 ${load.quantileMs(0.99).toFixed(0)} ms, ` +
      `longest ${load.quantileMs(1).toFixed(0)} ms; codes ${JSON.stringify([...codes])}; ` +
      `API server ${JSON.stringify(before)} to ${JSON.stringify(after)}\n`,
  );
  expect(show(load.failures, startedMs)).toEqual([]);
  // The API server has called the webhooks for each of them.
  expect(after.validations - before.validations).toBeGreaterThanOrEqual(load.admissions);
  expect(after.defaults - before.defaults).toBeGreaterThanOrEqual(load.admissions);
  expect(after.conversions - before.conversions).toBeGreaterThanOrEqual(load.conversions);
  expect(after.errors).toBe(before.errors);
});

/** Since when the Services send nothing to the address of a pod. */
async function unready(address: string): Promise<number> {
  await eventually('the EndpointSlice does not have the address as ready', async () => {
    const { items } = await admin.client.list(EndpointSlice, { namespace: name });
    const endpoints = items.flatMap(({ endpoints: each }) => each ?? []);
    return !endpoints.some(({ addresses, conditions }) => addresses.includes(address) && conditions?.ready !== false);
  });
  return performance.now();
}

test.each([
  ['the leader', true],
  ['the standby', false],
])('after a SIGKILL of %s, requests fail only until its address leaves the endpoints', async (_, isLeader) => {
  await settled();
  const namespace = `killed-${isLeader ? 'leader' : 'standby'}`;
  await admin.client.create(Namespace, { metadata: { name: namespace } });
  const load = WebhookLoad.start({ client, namespace, perSecond });
  await eventually('the load runs', async () => load.admissions > 100);
  expect(load.failures).toEqual([]);
  const holder = await leader();
  const victim = (await pods()).find(({ metadata }) => (metadata.name === holder) === isLeader);
  const { podIP = '', containerStatuses = [] } = victim?.status ?? {};
  const pids = await cluster.containerProcesses(containerStatuses[0]?.containerID ?? '');
  expect(pids).not.toEqual([]);
  const [killedMs, inFlight] = [performance.now(), load.inFlight];
  for (const pid of pids) process.kill(pid, 'SIGKILL');
  const unreadyMs = await unready(podIP);
  const sent = load.sent;
  await eventually('it is restarted', async () => {
    const pod = await admin.client.get(Pod, { namespace: name, name: victim?.metadata.name ?? '' });
    return isReady(pod) && (pod.status?.containerStatuses?.[0]?.restartCount ?? 0) > 0;
  });
  await settled();
  const settledAt = load.sent;
  await eventually('the load has sent requests to both replicas', async () => load.sent > settledAt + 200);
  await load.stop();
  const lines = show(load.failures, killedMs);
  process.stdout.write(
    `killed ${isLeader ? 'leader' : 'standby'}: endpoint removed after ${(unreadyMs - killedMs).toFixed(0)} ms; ` +
      `${lines.length} of ${load.sent} requests failed, ${inFlight} were in flight, ${sent} sent by then\n` +
      lines
        .slice(0, 10)
        .map((line) => `  ${line}\n`)
        .join(''),
  );
  // The API server learns of the change a little later than this test.
  expect(load.failures.filter(({ startedMs }) => startedMs > unreadyMs + 1000)).toEqual([]);
});

test('the definition and the webhooks trust the authority of the Secret', async () => {
  const { data = {} } = await admin.client.get(Secret, secret);
  const { spec } = await admin.client.get(CustomResourceDefinition, { name: 'greetings.example.com' });
  expect(spec.conversion?.webhook?.clientConfig?.caBundle).toBe(data['ca.crt']);
});
