import { CustomResourceDefinition } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { collectionPath, objectPath } from '../../packages/runtime/src/client/resource-path.ts';
import { definitionOf } from '../../src/commands/crds.ts';
import { PodSet } from '../../src/kinds/pod-set/kind.ts';
import { eventually } from '../../testkit/eventually.ts';
import type { TestCluster } from '../../testkit/test-cluster.ts';
import { OwnServer } from './environment/own-server.ts';
import { RawRequests } from './environment/raw-requests.ts';

let server: OwnServer;
let cluster: TestCluster;
let raw: RawRequests;

// An API server of its own: an object that cannot be read would stay for all tests.
beforeAll(async () => {
  server = await OwnServer.start();
  cluster = server.cluster;
  raw = await RawRequests.connect(cluster.kubeconfig);
  await cluster.client.apply(CustomResourceDefinition, definitionOf(PodSet, 'dev'), { force: true });
});

afterAll(async () => {
  raw?.[Symbol.dispose]();
  await server?.[Symbol.asyncDispose]();
});

/** A PodSet whose template has maps in maps, so many levels deep. The API server decodes up to 10,000 levels. */
const nested = (name: string, levels: number): string =>
  `{"apiVersion":"app.example.com/v1alpha1","kind":"PodSet","metadata":{"name":"${name}"},"spec":{"replicas":0,"template":{"spec":${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}}}}`;

test('a PodSet is refused or can be read, however deep its template is nested', async () => {
  const namespace = await cluster.namespace();
  await eventually('PodSets are served', async () => cluster.client.list(PodSet, { namespace }));
  const codes = new Set<number>();
  for (let levels = 9980; levels <= 10_005; levels += 1) {
    const name = `nested-${levels}`;
    const { code } = await raw.send('POST', collectionPath(PodSet, namespace), nested(name, levels));
    codes.add(code);
    if (code !== 201) continue;
    const read = await raw.send('GET', objectPath(PodSet, { name, namespace }));
    expect([levels, read.code]).toEqual([levels, 200]);
    const listed = await raw.send('GET', collectionPath(PodSet, namespace));
    expect([levels, listed.code]).toEqual([levels, 200]);
    const deleted = await raw.send('DELETE', objectPath(PodSet, { name, namespace }));
    expect([levels, deleted.code]).toEqual([levels, 200]);
  }
  expect([...codes]).toEqual(expect.arrayContaining([201]));
  expect(codes.size).toBeGreaterThan(1);
});
