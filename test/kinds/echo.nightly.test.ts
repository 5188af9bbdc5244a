import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '../../testkit/eventually.ts';
import { jobsCreated, operatorWrites } from '../../testkit/operator-writes.ts';
import { E2eCluster, echo, listOf } from '../e2e/environment/cluster.ts';
import { Release } from '../e2e/environment/release.ts';

let cluster: E2eCluster;
let release: Release;
const namespaces: string[] = [];

beforeAll(async () => {
  cluster = await E2eCluster.connect();
  release = Release.in(cluster, process.env.KINDS_RELEASE_NAMESPACE ?? '');
});

afterAll(async () => {
  for (const name of namespaces) await cluster.deleteNamespace(name);
});

async function namespace(): Promise<string> {
  const name = await cluster.namespace();
  namespaces.push(name);
  return name;
}

const allPrinted = (namespace: string) =>
  cluster.kubectl(['wait', '--for=condition=Ready', 'echo', '--all', '--namespace', namespace, '--timeout=240s']);

describe('30 Echos at once', () => {
  const names = Array.from({ length: 30 }, (_, i) => `many-${i}`);
  const all = (ns: string) => listOf(names.map((name) => echo(name, ns, { message: `I am ${name}` })));
  const created = async (ns: string) => jobsCreated(await operatorWrites(cluster.auditLog, ns));

  const expectAllPrintedOnce = async (ns: string) => {
    await allPrinted(ns);
    for (const name of names) expect(await cluster.logOf(name, ns)).toBe(`I am ${name}\n`);
    expect([...(await created(ns))].filter(([, count]) => count > 1)).toEqual([]);
  };

  test('are 30 pods that print', async () => {
    const ns = await namespace();
    await cluster.apply(all(ns));
    await expectAllPrintedOnce(ns);
  });

  // Nightly, since the files of a push share the operator and run side by side.
  test('with the operator killed in the middle are 30 pods still, none twice', async () => {
    const ns = await namespace();
    const applying = cluster.apply(all(ns));
    await eventually('some Jobs are there', async () => (await created(ns)).size >= 5);
    await release.kill();
    await applying;
    await expectAllPrintedOnce(ns);
  });
});
