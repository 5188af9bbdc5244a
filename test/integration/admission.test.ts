import { customResourceDefinition, defineKind, type Kind, type KubeObject, type Manifest } from '@echoperator/runtime';
import {
  defineAdmission,
  validatingAdmissionPolicies,
  type WebhookManifestOptions,
  type WebhooksOptions,
  webhookManifests,
} from '@echoperator/runtime/admission';
import { ApiError, isInvalid, isNotFound } from '@echoperator/runtime/client';
import {
  CustomResourceDefinition,
  Lease,
  MutatingWebhookConfiguration,
  Secret,
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
  ValidatingWebhookConfiguration,
} from '@echoperator/runtime/kinds';
import type { LeaderElectionOptions } from '@echoperator/runtime/process';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import * as Type from 'typebox';
import { eventually } from '../../testkit/eventually.ts';
import { freePorts } from '../../testkit/free-ports.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { type RunningWebhooks, runWebhooks } from './environment/running-webhooks.ts';

const Card = defineKind({
  group: 'admission.test',
  version: 'v1',
  kind: 'Card',
  plural: 'cards',
  description: 'Has a text.',
  spec: Type.Object({ text: Type.String({ maxLength: 100 }), size: Type.Optional(Type.Integer()) }),
  status: Type.Object({ seen: Type.Boolean() }),
});

const admission = defineAdmission(Card, {
  rules: [{ rule: "object.spec.text != 'forbidden by a rule'", message: 'this text is forbidden' }],
  validate: ({ spec }, previous, { isDryRun, warn }) => {
    if (spec.text === 'odd') warn('an odd text');
    if (isDryRun) warn('a dry run');
    if (spec.text === 'broken') throw new Error('a mistake of validate');
    return [
      ...(spec.text.includes('bad') ? [{ path: 'spec.text', message: 'must not be bad' }] : []),
      ...((spec.size ?? 0) < (previous?.spec.size ?? 0) ? [{ path: 'spec.size', message: 'must not shrink' }] : []),
    ];
  },
  defaults: (card) =>
    card.spec.size === undefined ? { ...card, spec: { ...card.spec, size: card.spec.text.length } } : undefined,
});

let cluster: TestCluster;
let namespace: string;
let port: number;
let settings: WebhookManifestOptions;
/** Undoes what a test did. */
let cleanUp: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  cluster = await TestCluster.connect();
  namespace = await cluster.namespace();
  await cluster.client.create(CustomResourceDefinition, customResourceDefinition(Card));
  await eventually('the kind is served', () =>
    cluster.client.list(Card, { namespace }).then(
      () => true,
      () => false,
    ),
  );
  [port] = await freePorts();
  settings = {
    name: 'card-operator',
    admissions: [admission],
    namespace: 'card-system',
    serviceAccount: 'card-operator',
    podLabels: {},
    port,
  };
});
afterEach(async () => {
  for (const undo of cleanUp.reverse()) await undo();
  cleanUp = [];
});
afterAll(async () => {
  await cluster.client.delete(CustomResourceDefinition, { name: 'cards.admission.test' });
  await cluster.close();
});

async function create(kind: Kind, manifest: object): Promise<void> {
  const { metadata } = await cluster.client.create(kind, manifest as Manifest<KubeObject>);
  cleanUp.push(() => cluster.client.delete(kind, metadata));
}

/** The manifests of the webhooks, but with a URL: nothing forwards requests to a Service. */
async function install(): Promise<void> {
  await create(Secret, { metadata: { name: 'card-operator-webhook-certificates', namespace } });
  for (const manifest of webhookManifests(settings)) {
    if (!('webhooks' in manifest)) continue;
    const entries = manifest.webhooks as { readonly clientConfig: { readonly service: { readonly path: string } } }[];
    const withUrl = entries.map((entry) => ({
      ...entry,
      clientConfig: { url: `https://127.0.0.1:${port}${entry.clientConfig.service.path}` },
    }));
    const isValidating = manifest.kind === 'ValidatingWebhookConfiguration';
    await create(isValidating ? ValidatingWebhookConfiguration : MutatingWebhookConfiguration, {
      ...manifest,
      webhooks: withUrl,
    });
  }
}

async function run(
  certificates: WebhooksOptions['certificates'] = { propagationMs: 1 },
  leaderElection?: LeaderElectionOptions,
): Promise<RunningWebhooks> {
  const running = await runWebhooks(cluster, { ...settings, namespace, certificates }, cleanUp, leaderElection);
  // API servers use their caches of the configurations.
  await eventually('the API server uses the webhooks', () =>
    cluster.client
      .create(Card, { metadata: { name: 'probe', namespace }, spec: { text: 'bad' } }, { dryRun: true })
      .then(() => false, isInvalid),
  );
  return running;
}

/** A MicroTime. */
const now = (): string => new Date().toISOString().replace('Z', '000Z');

const card = (name: string, text: string, size?: number) => ({
  metadata: { name, namespace },
  spec: { text, ...(size !== undefined && { size }) },
});

const errorOf = (request: Promise<unknown>): Promise<ApiError> =>
  request.then(
    () => Promise.reject(new Error('the request was not refused')),
    (error: unknown) => error as ApiError,
  );

test('refuses with all errors, applies defaults, and leaves deletions and the status alone', async () => {
  const { client } = cluster;
  await install();
  const { stop } = await run();
  const created = await client.create(Card, card('one', 'four'));
  cleanUp.push(() => client.delete(Card, created.metadata).catch(() => {}));
  expect(created.spec).toEqual({ text: 'four', size: 4 });

  const refused = await errorOf(client.update(Card, { ...created, spec: { text: 'bad', size: 3 } }));
  expect(refused.status).toMatchObject({
    reason: 'Invalid',
    details: {
      name: 'one',
      kind: 'Card',
      causes: [
        { field: 'spec.text', message: 'must not be bad' },
        { field: 'spec.size', message: 'must not shrink' },
      ],
    },
  });
  expect(refused.message).toContain('[spec.text: must not be bad, spec.size: must not shrink]');
  // A mistake in `validate` is no verdict.
  expect((await errorOf(client.create(Card, card('two', 'broken')))).status.code).toBe(500);

  await client.patch(Card, created.metadata, { type: 'merge', body: { metadata: { finalizers: ['card.test/hold'] } } });
  await stop();
  // Now the webhook cannot be called.
  expect((await errorOf(client.create(Card, card('three', 'good')))).status.code).toBe(500);
  const status = { type: 'merge', body: { status: { seen: true } } } as const;
  expect((await client.patch(Card, created.metadata, status, { subresource: 'status' })).status?.seen).toBe(true);
  await client.delete(Card, created.metadata);
  await client.patch(Card, created.metadata, { type: 'merge', body: { metadata: { finalizers: null } } });
  await eventually('the object is gone', () => client.get(Card, created.metadata).then(() => false, isNotFound));
});

test('a standby becomes ready if the leader creates no certificate, as one of a release without webhooks', async () => {
  const { client } = cluster;
  const lease = { namespace, name: 'card-operator' };
  const holder = { holderIdentity: 'previous-release', leaseDurationSeconds: 3600, renewTime: now() };
  await create(Lease, { metadata: lease, spec: holder });
  await install();
  const { operator } = await run({ propagationMs: 60_000 }, { lease });
  expect(operator.elector?.isLeading).toBe(false);
  expect((await client.create(Card, card('standby', 'four'), { dryRun: true })).spec.size).toBe(4);
});

test('writes the bundle again after another client has replaced the configuration', async () => {
  const { client } = cluster;
  await install();
  await run();
  const key = { name: 'card-operator' };
  const { metadata, webhooks: entries = [] } = await client.get(ValidatingWebhookConfiguration, key);
  const without = entries.map((entry) => ({ ...entry, clientConfig: { ...entry.clientConfig, caBundle: undefined } }));
  await client.update(ValidatingWebhookConfiguration, { metadata, webhooks: without } as never);
  await eventually('the bundle is back', async () => {
    const { webhooks: current = [] } = await client.get(ValidatingWebhookConfiguration, key);
    return current.every((entry, index) => entry.clientConfig.caBundle === entries[index]?.clientConfig.caBundle);
  });
});

test('rules are evaluated by the API server', async () => {
  const { client } = cluster;
  for (const manifest of validatingAdmissionPolicies([admission])) {
    const isPolicy = manifest.kind === 'ValidatingAdmissionPolicy';
    await create(isPolicy ? ValidatingAdmissionPolicy : ValidatingAdmissionPolicyBinding, manifest);
  }
  await eventually('the policy is enforced', () =>
    client.create(Card, card('rule', 'forbidden by a rule'), { dryRun: true }).then(
      () => false,
      (error) => error instanceof ApiError && error.message.includes('this text is forbidden'),
    ),
  );
  await client.create(Card, card('rule', 'allowed'), { dryRun: true });
});

test('no admission fails while authorities and certificates are replaced, and after a lost Secret', async () => {
  const { client } = cluster;
  await install();
  const { log } = await run({ propagationMs: 2000 });
  const secret = { name: 'card-operator-webhook-certificates', namespace };
  const served = () => log.messages('info').filter((message) => message === 'serving a certificate').length;
  const failures: unknown[] = [];
  let admissions = 0;
  let isRotated = false;
  const admit = async () => {
    while (admissions < 1000 || !isRotated) {
      admissions += 1;
      const request = client.create(Card, card(`card-${admissions}`, 'good'), { dryRun: true });
      await request.catch((error: unknown) => failures.push(error));
    }
  };
  const rotate = async () => {
    // Without its key, an authority must be replaced, as at the end of its lifetime.
    const lost = { data: { 'ca.key': Buffer.from('lost').toString('base64') } };
    for (const body of [lost, lost, { data: null }, lost]) {
      const before = served();
      await client.patch(Secret, secret, { type: 'merge', body });
      await eventually('the next certificate is served', async () => served() > before);
    }
    isRotated = true;
  };
  await Promise.all([rotate(), admit(), admit(), admit()]);
  expect(failures).toEqual([]);
  const entries = (await client.get(ValidatingWebhookConfiguration, { name: 'card-operator' })).webhooks ?? [];
  const bundle = Buffer.from(entries[0]?.clientConfig.caBundle ?? '', 'base64').toString();
  expect(bundle.match(/BEGIN CERTIFICATE/g)).toHaveLength(5);
  const { data = {} } = await client.get(Secret, secret);
  const keys = ['ca.key', 'tls.key'].map((member) => data[member] ?? '');
  const text = JSON.stringify(log.lines);
  for (const key of keys) expect(text).not.toContain(key);
  expect(text).not.toContain('PRIVATE KEY');
}, 120_000);
