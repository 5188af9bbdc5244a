import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { definitionOf } from '../../src/crds.ts';
import { controllers, kinds } from '../../src/operator.ts';
import { collectionPath, objectPath } from '../../src/runtime/client/resource-path.ts';
import type { StandardStatus } from '../../src/runtime/controller/index.ts';
import { type CustomKind, findCondition, type KubeObject, type ObjectKey } from '../../src/runtime/index.ts';
import { CustomResourceDefinition } from '../../src/runtime/kinds/index.ts';
import { eventually } from '../../testkit/eventually.ts';
import { OperatorProcess, selfContainedControllers } from '../../testkit/operator-process.ts';
import type { TestCluster } from '../../testkit/test-cluster.ts';
import { isOldestKubernetes } from '../../testkit/test-environment.ts';
import { mutatedSubjects } from './environment/mutated-subjects.ts';
import { OwnServer } from './environment/own-server.ts';
import { RawRequests, type RawResponse } from './environment/raw-requests.ts';
import { aboveBounds, type BoundedSchema, withoutBounds, worstObjects } from './environment/worst-values.ts';

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
}

/** Stores an object for each property that has a bound, with a value above it. Returns those that the API server accepted. */
async function storeAboveBounds(namespace: string): Promise<readonly Stored[]> {
  const stored: Stored[] = [];
  for (const { kind, spec } of subjects) {
    // The policy makes the operator add its finalizer.
    const base = kind.kind === 'BookStore' ? { spec: structuredClone(spec) as Record<string, object> } : { spec };
    if ('bookDB' in base.spec) Object.assign(base.spec.bookDB as object, { reclaimPolicy: 'Delete' });
    for (const [index, { property, json }] of worstObjects(schemaOf(kind), base, aboveBounds).entries()) {
      const name = `o${index}`;
      const { apiVersion, kind: kindName } = definitionHead(kind);
      const head = `{"apiVersion":"${apiVersion}","kind":"${kindName}","metadata":{"name":"${name}"},`;
      const created = await raw.send('POST', collectionPath(kind, namespace), `${head}${json.slice(1)}`);
      if (created.code !== 201) continue;
      const isStatus = property.startsWith('status');
      const path = objectPath(kind, { name, namespace }, 'status');
      const patched = isStatus ? await raw.send('PATCH', path, json) : created;
      expect([property, patched.code, patched.code < 300 ? '' : patched.text]).toEqual([
        property,
        expect.any(Number),
        '',
      ]);
      stored.push({ kind, name, property });
    }
  }
  return stored;
}

const definitionHead = ({ group, version, kind }: CustomKind) => ({ apiVersion: `${group}/${version}`, kind });

const isOn = (kind: CustomKind): boolean => selfContainedControllers.some((name) => controllers[name].kind === kind);

/**
 * Whether the property is of a status that a report of its controller does not replace: the controller is off here. The oldest Kubernetes
 * tolerates no stored excess in a status. Only a change by hand can have put it there.
 */
const isKeptStatus = (kind: CustomKind, property: string): boolean =>
  !isOn(kind) && /^status\.(?!conditions)/.test(property);

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

test('objects above the bounds that were stored before get a status and a finalizer, and are deleted', async () => {
  await applyDefinitions(withoutBounds);
  const namespace = await cluster.namespace();
  await eventually('the kinds are served', async () => {
    for (const kind of kinds) await cluster.client.list(kind, { namespace });
    return true;
  });
  const stored = await storeAboveBounds(namespace);
  expect(stored.length).toBeGreaterThan(200);
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
    { kind, property }: Stored,
    sent: Promise<{ code: number; text: string }>,
  ) => {
    const { code, text } = await sent;
    if (code >= 300) problems.push(`${what} of ${kind.kind} ${property}: ${code} ${text.slice(0, 400)}`);
  };
  const setFinalizers = (finalizers: readonly string[] | null) => JSON.stringify({ metadata: { finalizers } });
  for (const each of stored) {
    const path = objectPath(each.kind, { name: each.name, namespace });
    await expectCode('the finalizer', each, raw.send('PATCH', path, setFinalizers([finalizer])));
  }
  expect(problems).toEqual([]);
  const operator = await OperatorProcess.start(cluster.kubeconfig);
  let output = '';
  try {
    for (const { kind, name, property } of stored) {
      if (isOldestKubernetes() && isKeptStatus(kind, property)) continue;
      const ready = await eventually(`${kind.kind} ${property} has a status`, async () => {
        const object: Reporting = await cluster.client.get<Reporting>(kind, { name, namespace });
        const condition = findCondition(object.status?.conditions, 'Ready');
        return condition?.observedGeneration === object.metadata.generation && condition;
      });
      if (isOn(kind) && property.startsWith('spec') && ready.reason !== 'InvalidSpec')
        problems.push(`${kind.kind} ${property}: ${ready.reason}: ${ready.message.slice(0, 200)}`);
    }
    expect(problems).toEqual([]);
    for (const each of stored) {
      const path = objectPath(each.kind, { name: each.name, namespace });
      await expectCode('the deletion', each, raw.send('DELETE', path));
      await expectCode(
        'the removal of the finalizer',
        each,
        removeFinalizer(each.kind, { name: each.name, namespace }),
      );
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
