import { customResourceDefinition, defineKind, type Kind, withVersion } from '@echoperator/runtime';
import { defineAdmission, validatingAdmissionPolicies, webhookPermissions } from '@echoperator/runtime/admission';
import { type ApiError, isInvalid } from '@echoperator/runtime/client';
import {
  CustomResourceDefinition,
  Secret,
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
} from '@echoperator/runtime/kinds';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import * as Type from 'typebox';
import { lostFieldsAnnotation } from '../../packages/runtime/src/conversion/versions.ts';
import { eventually } from '../../testkit/eventually.ts';
import { freePorts } from '../../testkit/free-ports.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { type RunningWebhooks, runWebhooks } from './environment/running-webhooks.ts';

const names = { group: 'conversion.test', kind: 'Letter', plural: 'letters', description: 'A letter.' };

/** Has the new field `tone`. The old version has `mood`, which the new one lacks. */
const V1 = defineKind({
  ...names,
  version: 'v1',
  spec: Type.Object({ who: Type.String(), tone: Type.Optional(Type.String()) }),
  status: Type.Object({ sent: Type.Boolean(), by: Type.String() }),
});
const Alpha = defineKind({
  ...names,
  version: 'v1alpha1',
  spec: Type.Object({ name: Type.String(), mood: Type.Optional(Type.String()) }),
  status: Type.Object({ sent: Type.Boolean() }),
});
const Letter = withVersion(V1, Alpha, {
  deprecated: 'use conversion.test/v1',
  conversion: {
    toStored: ({ spec: { name }, status }) => ({ spec: { who: name }, ...(status && { status }) }),
    fromStored: ({ spec: { who }, status }) => ({
      spec: { name: who },
      ...(status && { status: { sent: status.sent ?? false } }),
    }),
  },
});

const definitionKey = { name: 'letters.conversion.test' };

let cluster: TestCluster;
let namespace: string;
let port: number;
/** Undoes what a test did. */
let cleanUp: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  cluster = await TestCluster.connect();
  [port] = await freePorts();
});
afterEach(async () => {
  for (const undo of cleanUp.reverse()) await undo();
  cleanUp = [];
});
afterAll(() => cluster.close());

/** The definition as a chart writes it, but with a URL: nothing forwards requests to a Service. */
function definition() {
  const manifest = customResourceDefinition(Letter, { conversionService: { namespace: 'letters', name: 'letters' } });
  const url = `https://127.0.0.1:${port}/convert`;
  const conversion = {
    strategy: 'Webhook',
    webhook: { conversionReviewVersions: ['v1'], clientConfig: { url } },
  };
  return { ...manifest, spec: { ...manifest.spec, conversion } };
}

async function run(): Promise<RunningWebhooks> {
  const { client } = cluster;
  namespace = await cluster.namespace();
  await client.apply(CustomResourceDefinition, definition() as never, { fieldManager: 'chart' });
  cleanUp.push(async () => {
    // Without a webhook, the objects of the other versions could not be deleted.
    await client.delete(CustomResourceDefinition, definitionKey);
    await eventually('the definition is gone', () =>
      cluster.isGone(() => client.get(CustomResourceDefinition, definitionKey)),
    );
  });
  await client.create(Secret, { metadata: { name: 'letter-operator-webhook-certificates', namespace } });
  const certificates = { propagationMs: 1000 };
  const options = { name: 'letter-operator', kinds: [Letter], namespace, port, certificates };
  const running = await runWebhooks(cluster, options, cleanUp);
  const probe = { metadata: { name: 'probe', namespace }, spec: { name: 'probe' } };
  await eventually('the API server converts', () =>
    client.create(Alpha, probe, { dryRun: true }).then(
      () => true,
      () => false,
    ),
  );
  return running;
}

const managersOf = (object: object, path: 'f:metadata' | 'f:spec'): Readonly<Record<string, unknown>> => {
  const { metadata } = object as {
    metadata: { managedFields?: { manager: string; subresource?: string; fieldsV1: Record<string, unknown> }[] };
  };
  return Object.fromEntries(
    (metadata.managedFields ?? []).map(({ manager, fieldsV1 }) => [manager, fieldsV1[path]] as const),
  );
};

test('clients of both versions read, write and list each object, and fields of the other version come back', async () => {
  const { client } = cluster;
  await run();
  const old = { metadata: { name: 'old', namespace }, spec: { name: 'Ada', mood: 'glad' } };
  expect((await client.create(Alpha, old)).spec).toEqual({ name: 'Ada', mood: 'glad' });
  await client.create(V1, { metadata: { name: 'new', namespace }, spec: { who: 'Bob', tone: 'warm' } });
  const listed = await client.list(Alpha, { namespace });
  expect(listed.items.map(({ spec }) => spec)).toEqual([{ name: 'Bob' }, { name: 'Ada', mood: 'glad' }]);
  expect((await client.list(V1, { namespace })).items.map(({ spec }) => spec)).toEqual([
    { who: 'Bob', tone: 'warm' },
    { who: 'Ada' },
  ]);

  // A client of the old version changes what it has, and keeps what it cannot see.
  const key = { name: 'new', namespace };
  await client.patch(Alpha, key, { type: 'merge', body: { spec: { name: 'Bert', mood: 'calm' } } });
  const patched = await client.get(V1, key);
  expect(patched.spec).toEqual({ who: 'Bert', tone: 'warm' });
  await client.update(V1, { ...patched, spec: { ...patched.spec, tone: 'cold' } });
  expect((await client.get(Alpha, key)).spec).toEqual({ name: 'Bert', mood: 'calm' });
  await client.patch(Alpha, key, { type: 'merge', body: { status: { sent: true } } }, { subresource: 'status' });
  const { spec, status } = await client.get(V1, key);
  expect([spec, status]).toEqual([{ who: 'Bert', tone: 'cold' }, { sent: true }]);
});

test('a server-side apply through the old version keeps the new fields, and nobody owns the annotation', async () => {
  const { client } = cluster;
  await run();
  const key = { name: 'applied', namespace };
  const apply = (kind: Kind, spec: object, fieldManager: string) =>
    client.apply(kind, { metadata: key, spec } as never, { fieldManager });
  await apply(V1, { who: 'Ada', tone: 'warm' }, 'new-client');
  // Both agree about the name: the old client owns its own field for it.
  const viaOld = await apply(Alpha, { name: 'Ada' }, 'old-client');
  expect(viaOld.metadata.annotations).toHaveProperty([lostFieldsAnnotation]);
  await apply(Alpha, { name: 'Ada', mood: 'glad' }, 'old-client');
  const stored = await client.get(V1, key);
  expect(stored.spec).toEqual({ who: 'Ada', tone: 'warm' });
  expect(managersOf(stored, 'f:spec')).toEqual({
    'new-client': { 'f:who': {}, 'f:tone': {} },
    'old-client': { 'f:name': {}, 'f:mood': {} },
  });
  expect(managersOf(stored, 'f:metadata')).toEqual({});
  expect(await apply(Alpha, { name: 'Ada' }, 'old-client')).toMatchObject({ spec: { name: 'Ada' } });
  expect((await client.get(Alpha, key)).spec).toEqual({ name: 'Ada' });
  await apply(V1, { who: 'Ada' }, 'new-client');
  expect((await client.get(V1, key)).spec).toEqual({ who: 'Ada' });
});

test('a client that may not write the status cannot write it through the annotation', async () => {
  const { client } = cluster;
  await run();
  const key = { name: 'forged', namespace };
  await client.create(V1, { metadata: key, spec: { who: 'Ada', tone: 'warm' } });
  const status = { type: 'merge', body: { status: { sent: false, by: 'operator' } } } as const;
  await client.patch(V1, key, status, { subresource: 'status' });
  const lost = [
    { path: ['spec', 'tone'], is: 'cold' },
    { path: ['status', 'by'], is: 'mallory' },
    { path: ['status', 'sent'], was: false, is: true },
  ];
  const forge = { [lostFieldsAnnotation]: JSON.stringify({ v1: lost, v1alpha1: lost }) };
  const body = { metadata: { annotations: forge } };
  await client.patch(Alpha, key, { type: 'merge', body });
  const forged = await client.get(V1, key);
  // The client may write the spec in any case.
  expect(forged.spec).toEqual({ who: 'Ada', tone: 'cold' });
  expect(forged.status).toEqual({ sent: false });
  await client.patch(V1, key, { type: 'merge', body });
  expect((await client.get(Alpha, key)).status).toEqual({ sent: false });
});

test('rules of the stored version are evaluated with the fields that a forged annotation restores', async () => {
  const { client } = cluster;
  await run();
  const key = { name: 'ruled', namespace };
  await client.create(V1, { metadata: key, spec: { who: 'Ada' } });
  const rule = { rule: "!has(object.spec.tone) || object.spec.tone != 'cold'", message: 'tone must not be cold' };
  for (const manifest of validatingAdmissionPolicies([defineAdmission(V1, { rules: [rule] })])) {
    const isPolicy = manifest.kind === 'ValidatingAdmissionPolicy';
    const kind = isPolicy ? ValidatingAdmissionPolicy : ValidatingAdmissionPolicyBinding;
    const { metadata } = await client.create(kind as Kind, manifest as never);
    cleanUp.push(() => client.delete(kind as Kind, metadata));
  }
  const isRefused = (error: ApiError) => error.message.includes('tone must not be cold');
  const cold = { metadata: { name: 'cold', namespace }, spec: { who: 'Bob', tone: 'cold' } };
  await eventually('the policy is enforced', () =>
    client.create(V1, cold, { dryRun: true }).then(() => false, isRefused),
  );
  const lost = { v1: [{ path: ['spec', 'tone'], is: 'cold' }] };
  const body = { metadata: { annotations: { [lostFieldsAnnotation]: JSON.stringify(lost) } } };
  await expect(client.patch(Alpha, key, { type: 'merge', body })).rejects.toThrow('tone must not be cold');
  expect((await client.get(V1, key)).spec).toEqual({ who: 'Ada' });
});

test('the leader writes only `caBundle` of the definition, with the rights of webhookPermissions', async () => {
  const { client } = cluster;
  const { stop } = await run();
  const found = await client.get(CustomResourceDefinition, definitionKey);
  const bundle = { 'f:conversion': { 'f:webhook': { 'f:clientConfig': { 'f:caBundle': {} } } } };
  expect(managersOf(found, 'f:spec')).toMatchObject({ 'letter-operator-webhook-certificates': bundle });
  expect(webhookPermissions({ name: 'letter-operator', kinds: [Letter] }).clusterRole).toEqual([
    {
      apiGroups: ['apiextensions.k8s.io'],
      resources: ['customresourcedefinitions'],
      resourceNames: ['letters.conversion.test'],
      verbs: ['get', 'list', 'watch', 'patch'],
    },
  ]);
  // A chart's server-side apply without the bundle leaves it.
  await client.apply(CustomResourceDefinition, definition() as never, { fieldManager: 'chart', force: true });
  const { conversion } = (await client.get(CustomResourceDefinition, definitionKey)).spec;
  expect(conversion?.webhook?.clientConfig?.caBundle).toBe(found.spec.conversion?.webhook?.clientConfig?.caBundle);
  // A rollback to a definition without conversion: the bundle alone would be invalid, until its manager gives it up.
  await stop();
  const { conversion: _, ...before } = definition().spec;
  const rolledBack = { metadata: definitionKey, spec: { ...before, versions: before.versions.slice(0, 1) } };
  const options = { fieldManager: 'chart', force: true };
  const refused = await client.apply(CustomResourceDefinition, rolledBack as never, options).then(
    () => undefined,
    (error: ApiError) => error,
  );
  expect(isInvalid(refused)).toBe(true);
  const nothing = { metadata: definitionKey } as never;
  await client.apply(CustomResourceDefinition, nothing, { fieldManager: 'letter-operator-webhook-certificates' });
  const { spec } = await client.apply(CustomResourceDefinition, rolledBack as never, options);
  expect(spec.conversion).toEqual({ strategy: 'None' });
});

test('no conversion fails while authorities and certificates are replaced, and after a lost Secret', async () => {
  const { client } = cluster;
  const { log } = await run();
  await client.create(V1, { metadata: { name: 'read', namespace }, spec: { who: 'Ada', tone: 'warm' } });
  const secret = { name: 'letter-operator-webhook-certificates', namespace };
  const served = () => log.messages('info').filter((message) => message === 'serving a certificate').length;
  const failures: unknown[] = [];
  let conversions = 0;
  let isRotated = false;
  const convert = async () => {
    while (conversions < 1000 || !isRotated) {
      conversions += 1;
      const manifest = { metadata: { name: `letter-${conversions}`, namespace }, spec: { name: 'Ada' } };
      await client.create(Alpha, manifest, { dryRun: true }).catch((error: unknown) => failures.push(error));
    }
  };
  const rotate = async () => {
    // Without its key, an authority must be replaced, as at the end of its lifetime.
    const lost = { data: { 'ca.key': Buffer.from('lost').toString('base64') } };
    for (const body of [lost, { data: null }, lost]) {
      const before = served();
      await client.patch(Secret, secret, { type: 'merge', body });
      await eventually('the next certificate is served', async () => served() > before);
    }
    isRotated = true;
  };
  await Promise.all([rotate(), convert(), convert(), convert()]);
  expect(failures).toEqual([]);
  expect((await client.get(Alpha, { name: 'read', namespace })).spec).toEqual({ name: 'Ada' });
}, 120_000);

test('while the webhook is down, only requests of the stored version work', async () => {
  const { client } = cluster;
  const { stop } = await run();
  await client.create(Alpha, { metadata: { name: 'one', namespace }, spec: { name: 'Ada' } });
  await stop();
  expect((await client.list(V1, { namespace })).items.map(({ spec }) => spec)).toEqual([{ who: 'Ada' }]);
  const refused = await client.create(Alpha, { metadata: { name: 'two', namespace }, spec: { name: 'Bob' } }).then(
    () => undefined,
    (error: ApiError) => error,
  );
  expect(refused?.message).toContain('conversion webhook for conversion.test/v1alpha1, Kind=Letter failed');
});
