import { E2eCluster } from './cluster.ts';
import type { Release } from './release.ts';

/** Shared by the tests of the chart: a cluster without the CRD of Echos, and a namespace for Echos. */

const crdName = 'echos.mmontes.io';

export let cluster: E2eCluster;
export let namespace: string;

export async function setUp(): Promise<void> {
  cluster = await E2eCluster.connect();
  await cluster.kubectl(['delete', 'crd', crdName, '--ignore-not-found', '--wait']);
  namespace = await cluster.namespace();
}

/** @param release the release that the test left installed */
export async function tearDown(release: Release | undefined): Promise<void> {
  await cluster.deleteNamespace(namespace);
  await release?.uninstall();
}

interface Identified {
  readonly metadata: { readonly uid: string; readonly name: string };
}

export const uids = async (): Promise<readonly string[]> =>
  (await cluster.get<{ items: Identified[] }>('echos', '--namespace', namespace)).items.map(
    ({ metadata }) => metadata.uid,
  );

export const printed = (name: string) =>
  cluster.kubectl(['wait', '--for=condition=Ready', `echo/${name}`, '--namespace', namespace, '--timeout=90s']);

export const served = () => cluster.kubectl(['wait', '--for=condition=Established', `crd/${crdName}`, '--timeout=30s']);
