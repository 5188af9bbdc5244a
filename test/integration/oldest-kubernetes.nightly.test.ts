import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isControlledBy } from '@echoperator/runtime';
import { Pod, Service, StatefulSet } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { BookStore } from '../../src/kinds/book-store/kind.ts';
import { PodSet } from '../../src/kinds/pod-set/kind.ts';
import { eventually } from '../../testkit/eventually.ts';
import { OperatorProcess } from '../../testkit/operator-process.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { customManifest } from '../../testkit/with-reason.ts';

/** Other files of the suite test the kinds whose tests need no pods. Here no pod runs either. */

const chart = readFileSync(join(import.meta.dirname, '../../charts/echoperator/Chart.yaml'), 'utf8');

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

test('the API server is of the oldest release that the chart claims to support', async () => {
  const { kubeVersion } = parse(chart) as { readonly kubeVersion: string };
  const [, minor] = /kubernetes_build_info\{.*git_version="v(1\.\d+)\.\d+"/.exec(await cluster.metrics()) ?? [];
  expect(kubeVersion).toBe(`>=${minor}.0-0`);
});

test('a PodSet gets its pods, and is scaled', async () => {
  const key = { name: 'web', namespace: await cluster.namespace() };
  const podSet = await cluster.client.create(PodSet, customManifest(key, { replicas: 3 }));
  const pods = async () =>
    (await cluster.client.list(Pod, { namespace: key.namespace })).items.filter(
      ({ metadata }) => metadata.deletionTimestamp === undefined,
    );
  await eventually('there are three pods', async () => (await pods()).length === 3);
  expect((await pods()).every((pod) => isControlledBy(pod, podSet))).toBe(true);
  await cluster.client.patch(PodSet, key, { type: 'merge', body: { spec: { replicas: 1 } } });
  await eventually('one pod is left', async () => (await pods()).length === 1);
});

test('a BookStore gets its StatefulSet and its Services, and CEL rules guard its database', async () => {
  const namespace = await cluster.namespace();
  const key = { name: 'books', namespace };
  const spec: BookStore['spec'] = {
    bookApp: { repository: 'example.com/app', replicas: 1 },
    bookDB: { repository: 'example.com/db', dbSize: '2Gi' },
  };
  await cluster.client.create(BookStore, customManifest(key, spec));
  const services = async () =>
    (await cluster.client.list(Service, { namespace })).items.map(({ metadata }) => metadata.name);
  await eventually('both Services are there', async () => (await services()).length === 2);
  await eventually('the StatefulSet is there', async () => {
    const [set] = (await cluster.client.list(StatefulSet, { namespace })).items;
    return set?.spec?.template.spec?.containers[0]?.image?.startsWith('example.com/db');
  });

  const resize = (dbSize: string | number) =>
    cluster.client.patch(BookStore, key, { type: 'merge', body: { spec: { bookDB: { dbSize } } } });
  await expect(resize('1Gi')).rejects.toThrow('dbSize cannot shrink from 2Gi to 1Gi');
  await expect(resize(1024)).rejects.toThrow('dbSize cannot shrink from 2Gi to 1024');
  expect((await resize('3Gi')).spec.bookDB.dbSize).toBe('3Gi');
  const sameNames = {
    bookApp: { ...spec.bookApp, serviceName: 'one' },
    bookDB: { ...spec.bookDB, serviceName: 'one' },
  };
  await expect(
    cluster.client.create(BookStore, customManifest({ name: 'same', namespace }, sameNames)),
  ).rejects.toThrow('bookApp.serviceName and bookDB.serviceName must differ');
});
