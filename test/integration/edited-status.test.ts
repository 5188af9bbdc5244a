import { isDeepStrictEqual } from 'node:util';
import type { CustomKind, KubeObject, ObjectKey } from '@echoperator/runtime';
import type { StandardStatus } from '@echoperator/runtime/controller';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { forEachConcurrently } from '../../packages/testing/src/for-each-concurrently.ts';
import { definitionOf } from '../../src/commands/crds.ts';
import { BookStore } from '../../src/kinds/book-store/kind.ts';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { PodSet } from '../../src/kinds/pod-set/kind.ts';
import { ScheduledEcho } from '../../src/kinds/scheduled-echo/kind.ts';
import { eventually } from '../../testkit/eventually.ts';
import { OperatorProcess } from '../../testkit/operator-process.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { customManifest, withReason } from '../../testkit/with-reason.ts';

type Status = StandardStatus & Readonly<Record<string, unknown>>;
type Reporting = KubeObject & { readonly status?: Status };

interface Schema {
  readonly type?: string;
  readonly format?: string;
  readonly enum?: readonly string[];
  readonly pattern?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
}

let cluster: TestCluster;
let operator: OperatorProcess;

beforeAll(async () => {
  cluster = await TestCluster.connect();
  operator = await OperatorProcess.start(cluster.kubeconfig);
});

afterAll(async () => {
  await operator?.stop();
  await cluster?.close();
});

function statusSchemaOf(kind: CustomKind): Readonly<Record<string, Schema>> {
  const [version] = definitionOf(kind, 'dev').spec.versions;
  const { status } = (version?.schema?.openAPIV3Schema?.properties ?? {}) as Readonly<Record<string, Schema>>;
  return status?.properties ?? {};
}

/** A valid value that nobody else sets. */
function another({ type, format, enum: values, properties = {}, items = {} }: Schema, current: unknown): unknown {
  if (values !== undefined) return values.find((value) => value !== current);
  if (type === 'integer') return 77;
  if (type === 'array') return [another(items, undefined)];
  if (type === 'object')
    return Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, another(each, undefined)]));
  return format === 'date-time' ? '2020-01-01T00:00:00Z' : 'edited';
}

/** The parts of a status that two objects with the same spec have in common: not the names, hashes and times. */
function comparable(status: Status, name: string): object {
  const conditions = [...(status.conditions ?? [])].sort((one, other) => one.type.localeCompare(other.type));
  const text = JSON.stringify({ ...status, conditions })
    .replaceAll(/-pod-[a-z0-9]{5}/g, '-pod-*')
    .replaceAll(name, '*')
    .replaceAll(/\*-[0-9a-f]{10}/g, '*')
    .replaceAll(/"20(?!20)[-0-9T:]+Z"/g, '"time"');
  return JSON.parse(text) as object;
}

const statusOf = async (kind: CustomKind, key: ObjectKey): Promise<Status> =>
  (await cluster.client.get<Reporting>(kind as never, key)).status ?? {};

/** The edits of each member of a status, and its removal. */
function editsOf(kind: CustomKind, settled: Status): readonly (readonly [string, unknown])[] {
  const [ready] = settled.conditions ?? [];
  return Object.entries(statusSchemaOf(kind)).flatMap(([member, schema]) => {
    if (member === 'conditions') {
      const conditions = [{ status: 'Unknown' }, { reason: 'Edited' }, { message: 'edited' }];
      return [[], ...conditions.map((edit) => [{ ...ready, ...edit }])].map((value) => [member, value] as const);
    }
    const edited = [member, another(schema, settled[member])] as const;
    return member in settled ? [edited, [member, null] as const] : [edited];
  });
}

/**
 * Makes an object for each edit: the operator does not correct the same object again and again at once. Each must have
 * the status of one that is not edited. Returns the edits that stay.
 */
async function uncorrected(kind: CustomKind, settle: (name: string) => Promise<ObjectKey>): Promise<readonly string[]> {
  const control = await settle('control');
  const edits = editsOf(kind, await statusOf(kind, control));
  const left: string[] = [];
  await forEachConcurrently(edits.entries(), async ([index, [member, value]]) => {
    const key = await settle(`edited-${index}`);
    const body = { status: { [member]: value } };
    await cluster.client.patch(kind, key, { type: 'merge', body }, { subresource: 'status' });
    const isCorrected = async () =>
      isDeepStrictEqual(
        comparable(await statusOf(kind, key), key.name),
        comparable(await statusOf(kind, control), control.name),
      );
    await eventually(`${member} is corrected`, isCorrected, 20_000).catch(() => {
      left.push(`${member} = ${JSON.stringify(value)}`);
    });
  });
  return left.toSorted();
}

const shop = (name: string) => ({
  bookApp: { repository: 'example.com/app', serviceName: `${name}-app` },
  bookDB: { repository: 'example.com/db', dbSize: '1Gi', serviceName: `${name}-db` },
});

test.each([
  ['Echo', 'Printing', Echo, () => ({ message: 'hello' })],
  ['ScheduledEcho', 'Scheduled', ScheduledEcho, () => ({ message: 'hello', schedule: '@yearly' })],
  ['PodSet', 'PodsReady', PodSet, () => ({ replicas: 0 })],
  ['PodSet', 'PodsNotReady', PodSet, () => ({ replicas: 2 })],
  ['PodSet', 'InvalidTemplate', PodSet, () => ({ replicas: 1, template: { spec: { containers: [] } } })],
  ['BookStore', 'DatabaseUpdating', BookStore, shop],
] as const)('an edited status of a %s that is %s is corrected', async (_, reason, kind, specOf) => {
  const namespace = await cluster.namespace();
  const settle = async (name: string): Promise<ObjectKey> => {
    const manifest = customManifest({ name, namespace }, specOf(name) as unknown as Echo['spec']);
    await cluster.client.create(kind as typeof Echo, manifest);
    await withReason(cluster, kind as typeof Echo, { name, namespace }, reason);
    return { name, namespace };
  };
  expect(await uncorrected(kind, settle)).toEqual([]);
});

test('an edited status of a printed Echo is corrected', async () => {
  const namespace = await cluster.namespace();
  const settle = async (name: string): Promise<ObjectKey> => {
    await cluster.client.create(Echo, customManifest({ name, namespace }, { message: 'hello' }));
    await cluster.endPods({ name, namespace });
    await withReason(cluster, Echo, { name, namespace }, 'Printed');
    return { name, namespace };
  };
  expect(await uncorrected(Echo, settle)).toEqual([]);
});
