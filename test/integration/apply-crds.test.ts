import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  customResourceDefinition,
  findCondition,
  type Kind,
  type KubeObject,
  type Manifest,
} from '@echoperator/runtime';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import type { StandardStatus } from '@echoperator/runtime/controller';
import { CustomResourceDefinition } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { parseAllDocuments } from 'yaml';
import { HttpClient } from '../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../packages/runtime/src/client/transport.ts';
import { definitionOf } from '../../src/commands/crds.ts';
import { BookStore } from '../../src/kinds/book-store/kind.ts';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { kinds } from '../../src/operator.ts';
import { echoManifest, echoWithReason } from '../../testkit/echos.ts';
import { eventually } from '../../testkit/eventually.ts';
import { OperatorProcess, operatorCommand } from '../../testkit/operator-process.ts';
import type { TestCluster } from '../../testkit/test-cluster.ts';
import { withReason } from '../../testkit/with-reason.ts';
import { originalCrds, originalEchoCrd } from './environment/original-crds.ts';
import { OwnServer } from './environment/own-server.ts';

let server: OwnServer;
let cluster: TestCluster;

beforeAll(async () => {
  server = await OwnServer.start();
  cluster = server.cluster;
});

afterAll(async () => {
  await server?.[Symbol.asyncDispose]();
});

const applyCrds = () => operatorCommand(['apply-crds'], { KUBECONFIG: cluster.kubeconfig, LOG_LEVEL: 'info' });

const crd = () => cluster.client.get(CustomResourceDefinition, { name: 'echos.mmontes.io' });

type Reporting = KubeObject & { readonly status?: StandardStatus };

interface Sample {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: object;
}

/** A definition is established a moment before the server's handler of its objects has heard of it. */
const createOnceServed = (name: string, namespace: string, spec: Echo['spec'] | undefined): Promise<Echo> =>
  eventually('the kind is served', () =>
    cluster.client.create(Echo, echoManifest({ name, namespace }, spec as Echo['spec'])),
  );

test('apply-crds replaces the original definition without losing an Echo, and each Echo gets a status', async () => {
  await cluster.client.create(CustomResourceDefinition, originalEchoCrd);
  const namespace = await cluster.namespace();
  // The original schema accepts these, unlike ours: an empty message, and no spec.
  const specs = { 'hello-world': { message: 'Hola, 世界!' }, blank: { message: '' }, bare: undefined };
  const before: Echo[] = [];
  for (const [name, spec] of Object.entries(specs)) before.push(await createOnceServed(name, namespace, spec));

  const first = await applyCrds();
  expect(first.stderr).toBe('');
  expect(first.exitCode).toBe(0);
  expect((await crd()).spec?.versions[0]?.subresources).toEqual({ status: {} });
  const { resourceVersion } = (await crd()).metadata;
  expect((await applyCrds()).exitCode).toBe(0);
  expect((await crd()).metadata.resourceVersion).toBe(resourceVersion);

  const operator = await OperatorProcess.start(cluster.kubeconfig);
  try {
    const printing = await echoWithReason(cluster, { name: 'hello-world', namespace }, 'Printing');
    await echoWithReason(cluster, { name: 'blank', namespace }, 'InvalidSpec');
    await echoWithReason(cluster, { name: 'bare', namespace }, 'InvalidSpec');
    expect(printing.metadata.uid).toBe(before[0]?.metadata.uid);
    const { items } = await cluster.client.list(Echo, { namespace });
    expect(items.map(({ metadata }) => metadata.uid).sort()).toEqual(before.map(({ metadata }) => metadata.uid).sort());
  } finally {
    await operator.stop();
  }
});

/** The manifests of the tutorials, which the examples are. */
const samples = ['echo', 'scheduled-echo', 'pod-set', 'book-store', 'postgres-writer', 'pet'].flatMap((name) =>
  parseAllDocuments(readFileSync(join(import.meta.dirname, `../../examples/${name}.yaml`), 'utf8')).map(
    (document) => document.toJS() as Sample,
  ),
);

/** What the originals' definitions accept besides: the reason, and the beginning of the message. */
const looser = [
  ['PodSet', { replicas: -2 }, 'spec.replicas is -2'],
  ['BookStore', { bookDB: { repository: 'mongo', dbSize: '2GB' } }, 'spec.bookDB.dbSize is "2GB"'],
  ['BookStore', { bookApp: { repository: 'app', replicas: -1 } }, 'spec.bookApp.replicas is -1'],
  ['ScheduledEcho', { message: '' }, 'spec.message has 0 characters'],
  ['Echo', { message: '' }, 'spec.message has 0 characters'],
] as const;

test("the tutorials' manifests that their definitions have stored stay as they are, and are reconciled or refused with a reason", async () => {
  await cluster.client.deleteCollection(CustomResourceDefinition, {});
  for (const definition of originalCrds) {
    await eventually('no definition of this name is left', () =>
      cluster.isGone(() => cluster.client.get(CustomResourceDefinition, { name: definition.metadata.name })),
    );
    await cluster.client.create(CustomResourceDefinition, definition);
  }
  const namespace = await cluster.namespace();
  const create = async ({ kind, metadata, spec }: Sample) => {
    const custom = kinds.find((each) => each.kind === kind);
    if (custom === undefined) throw new Error(`no kind ${kind}`);
    const key = { ...metadata, namespace };
    const manifest = { metadata: key, spec };
    const stored = await eventually('the kind is served', () =>
      cluster.client.create(custom, manifest as Manifest<KubeObject>),
    );
    return { kind: custom as Kind<Reporting>, key, uid: stored.metadata.uid, spec };
  };
  const stored = [];
  for (const sample of samples) stored.push(await create(sample));
  const invalid = [];
  for (const [index, [kind, change, message]] of looser.entries()) {
    const { spec } = samples.find((sample) => sample.kind === kind)!;
    invalid.push({
      ...(await create({ kind, metadata: { name: `invalid-${index}` }, spec: { ...spec, ...change } })),
      message,
    });
  }

  expect((await applyCrds()).exitCode).toBe(0);
  const operator = await OperatorProcess.start(cluster.kubeconfig);
  try {
    for (const { kind, key, uid, spec } of stored) {
      const object = await eventually(`${kind.kind} ${key.name} has a status`, async () => {
        const found = await cluster.client.get(kind, key);
        return findCondition(found.status?.conditions, 'Ready') !== undefined && found;
      });
      expect(object).toMatchObject({ metadata: { uid }, spec });
      expect(findCondition(object.status?.conditions, 'Ready')?.reason).not.toMatch(/Invalid|Refused|Failed|Taken/);
    }
    for (const { kind, key, message } of invalid) {
      const { status } = await withReason(cluster, kind, key, 'InvalidSpec');
      expect(findCondition(status?.conditions, 'Ready')?.message).toMatch(new RegExp(`^${message}`));
    }
  } finally {
    await operator.stop();
  }
});

/**
 * Writes the definition as Kubernetes before 1.22 has stored it: without a schema. No API serves that version any more.
 */
async function storeAsBeta({ metadata, spec }: Manifest<CustomResourceDefinition>): Promise<void> {
  const { group, names, scope, versions } = spec;
  const stored = versions.map(({ name }) => ({ name, served: true, storage: true }));
  const lastTransitionTime = '2020-01-01T00:00:00Z';
  const conditions = ['NamesAccepted', 'Established'].map((type) => ({ type, status: 'True', lastTransitionTime }));
  const definition = {
    apiVersion: 'apiextensions.k8s.io/v1beta1',
    kind: 'CustomResourceDefinition',
    metadata: { ...metadata, uid: randomUUID(), generation: 1, creationTimestamp: lastTransitionTime },
    spec: { group, names, scope, versions: stored, preserveUnknownFields: true, conversion: { strategy: 'None' } },
    status: { conditions, acceptedNames: names, storedVersions: stored.map(({ name }) => name) },
  };
  const key = `/registry/apiextensions.k8s.io/customresourcedefinitions/${metadata.name}`;
  const encode = (text: string): string => Buffer.from(text).toString('base64');
  const body = JSON.stringify({ key: encode(key), value: encode(JSON.stringify(definition)) });
  const response = await fetch(`${server.etcdUrl}/v3/kv/put`, { method: 'POST', body });
  expect(response.status).toBe(200);
}

test("apply-crds replaces a definition of an API version that is gone, as BookStore's original is, and no longer accepts fields that it lacks", async () => {
  const { name } = customResourceDefinition(BookStore).metadata;
  const installed = () => cluster.client.get(CustomResourceDefinition, { name });
  await cluster.client.deleteCollection(CustomResourceDefinition, {});
  await eventually('the definition is gone', () => cluster.isGone(installed));
  await storeAsBeta(originalCrds.find(({ metadata }) => metadata.name === name)!);
  expect((await installed()).spec.preserveUnknownFields).toBe(true);
  const applied = await applyCrds();
  expect([applied.exitCode, applied.stderr]).toEqual([0, '']);
  expect((await installed()).spec.preserveUnknownFields).toBeUndefined();
  const { spec } = samples.find(({ kind }) => kind === 'BookStore')!;
  const misspelt = {
    metadata: { namespace: await cluster.namespace(), name: 'misspelt' },
    spec: { ...(spec as BookStore['spec']), bookDb: {} },
  };
  const create = () => cluster.client.create(BookStore, misspelt, { dryRun: true, fieldValidation: 'Strict' });
  await eventually('an unknown field is refused', () =>
    create().then(
      () => false,
      (error: Error) => error.message.includes('unknown field "spec.bookDb"'),
    ),
  );
  const { resourceVersion } = (await installed()).metadata;
  expect((await applyCrds()).exitCode).toBe(0);
  expect((await installed()).metadata.resourceVersion).toBe(resourceVersion);
});

test('apply-crds creates missing definitions and ends when the API server serves them', async () => {
  await cluster.client.delete(CustomResourceDefinition, { name: 'echos.mmontes.io' });
  await eventually('the definition is gone', () => cluster.isGone(crd));
  expect((await applyCrds()).exitCode).toBe(0);
  const namespace = await cluster.namespace();
  const echo = await createOnceServed('new', namespace, { message: 'new' });
  expect(echo.metadata.generation).toBe(1);
});

/** Applies the definition of Echos with a field that this version lacks, as the operator of another version does. */
async function applyWithColour(version: string): Promise<void> {
  const other = structuredClone(definitionOf(Echo, version)) as CustomResourceDefinition;
  const { properties } = other.spec.versions[0]!.schema!.openAPIV3Schema!.properties!.spec as {
    properties: Record<string, object>;
  };
  properties.colour = { type: 'string' };
  const transport = new Transport(await kubeconfigConnection(cluster.kubeconfig), { userAgent: version });
  try {
    await new HttpClient(transport, 'echoperator').apply(CustomResourceDefinition, other, { force: true });
  } finally {
    await transport.close();
  }
}

const createColoured = async (name: string) => {
  const key = { name, namespace: await cluster.namespace() };
  const spec = { message: 'hello', colour: 'green' };
  const { metadata } = await eventually('the other field is served', async () => {
    const echo = await cluster.client.apply(Echo, echoManifest(key, spec), { force: true });
    return 'colour' in echo.spec && echo;
  });
  return { key, uid: metadata.uid };
};

test('apply-crds leaves the definition of a newer version, and so what only that knows of its objects', async () => {
  await applyWithColour('99.0.0');
  const { key, uid } = await createColoured('of-newer');
  const before = (await crd()).metadata.resourceVersion;
  const { exitCode, stdout } = await applyCrds();
  expect(exitCode).toBe(0);
  expect(stdout).toContain('a newer version of the operator has applied this definition: it stays');
  expect((await crd()).metadata.resourceVersion).toBe(before);
  expect(await cluster.client.get(Echo, key)).toMatchObject({ metadata: { uid }, spec: { colour: 'green' } });
});

test('apply-crds replaces the definition of an older version, and keeps its objects without what only that knows', async () => {
  await applyWithColour('0.0.1');
  const { key, uid } = await createColoured('of-older');
  expect((await applyCrds()).exitCode).toBe(0);
  const after = await eventually('the definition of this version is served', async () => {
    const echo = await cluster.client.get(Echo, key);
    return !('colour' in echo.spec) && echo;
  });
  expect(after).toMatchObject({ metadata: { uid }, spec: { message: 'hello' } });
});

test('delete-crds deletes the definitions with their objects, and ends when they are gone', async () => {
  expect((await applyCrds()).exitCode).toBe(0);
  const namespace = await cluster.namespace();
  await createOnceServed('doomed', namespace, { message: 'doomed' });
  const deleteCrds = () => operatorCommand(['delete-crds'], { KUBECONFIG: cluster.kubeconfig, LOG_LEVEL: 'info' });
  expect(await deleteCrds()).toMatchObject({ exitCode: 0, stderr: '' });
  for (const kind of kinds) {
    const { name } = customResourceDefinition(kind).metadata;
    expect(await cluster.isGone(() => cluster.client.get(CustomResourceDefinition, { name }))).toBe(true);
  }
  expect((await deleteCrds()).exitCode).toBe(0);
});
