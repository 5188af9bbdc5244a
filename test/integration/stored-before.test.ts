import { type CustomKind, findCondition, type KubeObject, type ObjectKey } from '@echoperator/runtime';
import type { StandardStatus } from '@echoperator/runtime/controller';
import { CustomResourceDefinition } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { isObject } from '../../packages/runtime/src/apply/json.ts';
import { collectionPath, objectPath } from '../../packages/runtime/src/client/resource-path.ts';
import { definitionOf } from '../../src/commands/crds.ts';
import { controllers, kinds } from '../../src/operator.ts';
import { eventually } from '../../testkit/eventually.ts';
import { OperatorProcess, selfContainedControllers } from '../../testkit/operator-process.ts';
import type { TestCluster } from '../../testkit/test-cluster.ts';
import { isOldestKubernetes } from '../../testkit/test-environment.ts';
import { mutatedSubjects } from '../plans/index.ts';
import { OwnServer } from './environment/own-server.ts';
import { RawRequests, type RawResponse } from './environment/raw-requests.ts';
import { type BoundedSchema, refused, withoutBounds, worstObjects } from './environment/worst-values.ts';

type Reporting = KubeObject & { readonly status?: StandardStatus };

let server: OwnServer;
let cluster: TestCluster;
let raw: RawRequests;

beforeAll(async () => {
  server = await OwnServer.start();
  cluster = server.cluster;
  raw = await RawRequests.connect(cluster.kubeconfig);
});

afterAll(async () => {
  raw?.[Symbol.dispose]();
  await server?.[Symbol.asyncDispose]();
});

/** Applies the definitions, and waits until the API server serves them. */
async function applyDefinitions(change: (definition: object) => object): Promise<void> {
  for (const kind of kinds) {
    const definition = change(definitionOf(kind, 'dev')) as CustomResourceDefinition;
    await cluster.client.apply(CustomResourceDefinition, definition, { force: true });
  }
}

const subjects = mutatedSubjects({ rows: async () => [], pets: async () => [] });

const schemaOf = (kind: CustomKind): BoundedSchema => {
  const [version] = definitionOf(kind, 'dev').spec.versions;
  const { spec = {}, status = {} } = (version?.schema?.openAPIV3Schema?.properties ?? {}) as Record<
    string,
    BoundedSchema
  >;
  return { type: 'object', properties: { spec, status } };
};

interface Stored {
  readonly kind: CustomKind;
  readonly name: string;
  readonly property: string;
  readonly value: string;
  /** Repairs the spec. */
  readonly valid: object;
}

/** Specs that a CEL rule refuses, by kind. What they ask for is reported in various ways, or works. */
const againstRules: Readonly<Record<string, readonly (readonly [string, object])[]>> = {
  BookStore: [
    ['dbSize of 0', { bookDB: { dbSize: '0' } }],
    ['equal serviceNames', { bookApp: { serviceName: 'the-db' } }],
  ],
  PodSet: ['app', 'version', 'app.example.com/template-hash'].map((label) => [
    `label ${label}`,
    { template: { metadata: { labels: { [label]: 'x' } }, spec: { containers: [{ name: 'c', image: 'busybox' }] } } },
  ]),
};

/** Merges objects; any other value replaces the former. */
function merged(one: unknown, other: unknown): unknown {
  if (!isObject(one) || !isObject(other)) return other;
  const entries = Object.entries(other).map(([name, value]) => [name, merged(one[name], value)]);
  return { ...one, ...Object.fromEntries(entries) };
}

/**
 * Stores an object for each value of a property that its schema refuses. Returns those that the API server accepted.
 */
async function storeRefused(namespace: string): Promise<readonly Stored[]> {
  const stored: Stored[] = [];
  for (const { kind, spec } of subjects) {
    // The policy makes the operator add its finalizer.
    const base = kind.kind === 'BookStore' ? { spec: structuredClone(spec) as Record<string, object> } : { spec };
    if ('bookDB' in base.spec) Object.assign(base.spec.bookDB as object, { reclaimPolicy: 'Delete' });
    const broken = (againstRules[kind.kind] ?? []).map(([value, changed]) => ({
      property: 'rule',
      value,
      json: JSON.stringify({ spec: merged(base.spec, changed) }),
    }));
    for (const [index, { property, value, json }] of [
      ...worstObjects(schemaOf(kind), base, refused),
      ...broken,
    ].entries()) {
      const name = `o${index}`;
      const { apiVersion, kind: kindName } = definitionHead(kind);
      const head = `{"apiVersion":"${apiVersion}","kind":"${kindName}","metadata":{"name":"${name}"},`;
      const created = await raw.send('POST', collectionPath(kind, namespace), `${head}${json.slice(1)}`);
      if (created.code !== 201) continue;
      const isStatus = property.startsWith('status');
      const path = objectPath(kind, { name, namespace }, 'status');
      const patched = isStatus ? await raw.send('PATCH', path, json) : created;
      if (patched.code >= 300) continue;
      stored.push({ kind, name, property, value, valid: base.spec });
    }
  }
  return stored;
}

const definitionHead = ({ group, version, kind }: CustomKind) => ({ apiVersion: `${group}/${version}`, kind });

const isOn = (kind: CustomKind): boolean => selfContainedControllers.some((name) => controllers[name].kind === kind);

/**
 * Whether the oldest Kubernetes refuses each write of the status: it tolerates no stored value that a CEL rule refuses,
 * and none in a status. Only a change by hand can have put it into the status, where a report does not replace it.
 */
const isNotTolerated = ({ kind, property, value }: Stored): boolean =>
  value === 'a long key' ||
  property === 'rule' ||
  /^status\.(completedGeneration|conditions\[\]\.(status|observedGeneration))$/.test(property) ||
  (!isOn(kind) && /^status\.(?!conditions)/.test(property));

/**
 * The API server checks the paths of the scale subresource in every write but that of the status, and tolerates no
 * stored value there.
 */
const mayHaveFinalizer = ({ kind, property, value }: Stored): boolean =>
  !(kind.kind === 'PodSet' && /^(spec|status)\.replicas$/.test(property) && value === 'below the minimum');

const finalizer = 'example.com/test';

/** Removes the test's finalizer while the operator may remove its own. */
const removeFinalizer = (kind: CustomKind, key: ObjectKey): Promise<RawResponse> =>
  eventually('the finalizer is removed', async () => {
    const { metadata } = await cluster.client.get(kind, key);
    const { resourceVersion, finalizers = [] } = metadata;
    const others = finalizers.filter((other) => other !== finalizer);
    const body = JSON.stringify({ metadata: { resourceVersion, finalizers: others } });
    const response = await raw.send('PATCH', objectPath(kind, key), body);
    return response.code !== 409 && response;
  });

test('objects that the schema refuses, which were stored before, get a status and a finalizer, are repaired, and are deleted', async () => {
  await applyDefinitions((definition) => {
    const loose = withoutBounds(definition) as CustomResourceDefinition;
    // The API server checks the paths of this subresource.
    for (const version of loose.spec.versions) Object.assign(version, { subresources: { status: {} } });
    return loose;
  });
  const namespace = await cluster.namespace();
  await eventually('the kinds are served', async () => {
    for (const kind of kinds) await cluster.client.list(kind, { namespace });
    return true;
  });
  const stored = await storeRefused(namespace);
  expect(stored.length).toBeGreaterThan(300);
  await applyDefinitions((definition) => definition);
  const refused = JSON.stringify({
    ...definitionHead(kinds[0]!),
    metadata: { name: 'late' },
    spec: { message: 'x'.repeat(5000) },
  });
  await eventually('the bounds are in force', async () => {
    const { code } = await raw.send('POST', `${collectionPath(kinds[0]!, namespace)}?dryRun=All`, refused);
    return code === 422;
  });

  const problems: string[] = [];
  const expectCode = async (
    what: string,
    { kind, property, value }: Stored,
    sent: Promise<{ code: number; text: string }>,
  ) => {
    const { code, text } = await sent;
    if (code >= 300) problems.push(`${what} of ${kind.kind} ${property} (${value}): ${code} ${text.slice(0, 400)}`);
  };
  const setFinalizers = (finalizers: readonly string[] | null) => JSON.stringify({ metadata: { finalizers } });
  for (const each of stored.filter(mayHaveFinalizer)) {
    const path = objectPath(each.kind, { name: each.name, namespace });
    await expectCode('the finalizer', each, raw.send('PATCH', path, setFinalizers([finalizer])));
  }
  expect(problems).toEqual([]);
  const operator = await OperatorProcess.start(cluster.kubeconfig);
  let output = '';
  try {
    // The others are deleted as they are.
    const repaired = stored.filter((_, index) => index % 2 === 0);
    const reportOf = ({ kind, name, property, value }: Stored) =>
      eventually(
        `${kind.kind} ${property} (${value}) has a status`,
        async () => {
          const object: Reporting = await cluster.client.get<Reporting>(kind, { name, namespace });
          const condition = findCondition(object.status?.conditions, 'Ready');
          return condition?.observedGeneration === object.metadata.generation && condition;
        },
        20_000,
      ).catch((error: unknown) => ({ reason: 'none', message: String(error) }));
    for (const each of stored) {
      const { kind, property, value } = each;
      if (isOldestKubernetes() && isNotTolerated(each)) continue;
      const { reason, message } = await reportOf(each);
      const isNamed = message.replaceAll(/\[\d+\]/g, '[]').startsWith(property.replace(/\.\*.*/, '.'));
      const isInvalid = isOn(kind) && property.startsWith('spec') && value !== 'a long key';
      if (reason === 'none' || (isInvalid && !(reason === 'InvalidSpec' && isNamed)))
        problems.push(`${kind.kind} ${property} (${value}): ${reason}: ${message.slice(0, 200)}`);
    }
    expect(problems).toEqual([]);
    for (const each of stored) {
      const path = objectPath(each.kind, { name: each.name, namespace });
      const body = JSON.stringify([{ op: 'replace', path: '/spec', value: each.valid }]);
      const query = repaired.includes(each) ? '' : '?dryRun=All';
      await expectCode('the repair', each, raw.send('PATCH', path + query, body, 'application/json-patch+json'));
    }
    for (const each of repaired.filter(({ kind }) => isOn(kind))) {
      const { reason, message } = await reportOf(each);
      if (reason === 'none' || reason === 'InvalidSpec')
        problems.push(
          `the repaired ${each.kind.kind} ${each.property} (${each.value}): ${reason}: ${message.slice(0, 200)}`,
        );
    }
    expect(problems).toEqual([]);
    for (const each of stored) {
      const path = objectPath(each.kind, { name: each.name, namespace });
      await expectCode('the deletion', each, raw.send('DELETE', path));
      if (!mayHaveFinalizer(each)) continue;
      const key = { name: each.name, namespace };
      await expectCode('the removal of the finalizer', each, removeFinalizer(each.kind, key));
    }
    expect(problems).toEqual([]);
    await eventually('every object is gone', async () => {
      const left = await Promise.all(kinds.map((kind) => cluster.client.list(kind, { namespace })));
      return left.every(({ items }) => items.length === 0);
    });
  } finally {
    ({ output } = await operator.stop());
  }
  // Nothing quotes what is too long.
  expect(output.length / stored.length).toBeLessThan(10_000);
});
