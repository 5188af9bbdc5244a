import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigMap, Deployment, PodDisruptionBudget } from '@echoperator/runtime/kinds';
import { expect } from '@jest/globals';
import { stringify } from 'yaml';
import { type ControlPlane, startControlPlane } from '../../../testkit/control-plane.ts';
import { makeRunFolder } from '../../../testkit/run-folder.ts';
import { TestCluster } from '../../../testkit/test-cluster.ts';
import { chart, Helm, HelmError, type HelmName, type ReleaseOptions } from '../helm.ts';

export let cluster: TestCluster;
/** The namespaces of the releases. */
export let [first, second, third] = ['', '', ''];
let folder: string;
let controlPlane: ControlPlane;
const installed = new Map<string, ReleaseOptions>();

/**
 * Starts a separate API server, because a release finds every other release in the cluster.
 *
 * @param crdFolders with the definitions that it serves. Default: ours, because nothing runs the chart's Job that
 *   applies them
 */
export async function setUp(crdFolders = [join(chart, 'files/crds')]): Promise<void> {
  folder = await makeRunFolder('chart');
  controlPlane = await startControlPlane(folder, crdFolders);
  cluster = await TestCluster.at(controlPlane.config.kubeconfigPath, controlPlane.auditLog);
  [first, second, third] = [await cluster.namespace(), await cluster.namespace(), await cluster.namespace()];
}

export async function uninstallAll(): Promise<void> {
  const helm = await helmOf('helm4');
  for (const { release, namespace } of installed.values()) {
    await helm.uninstall({ namespace, ...(release !== undefined && { release }) });
  }
  installed.clear();
}

export async function tearDown(): Promise<void> {
  await cluster?.close();
  await controlPlane?.stop();
  await rm(folder, { recursive: true, force: true });
}

export const helmOf = (name: HelmName, chartFolder = chart) => Helm.find(name, chartFolder, cluster.kubeconfig);

/** Installs or upgrades a release. {@link uninstallAll} removes it. */
export async function upgrade(helm: Helm, release: ReleaseOptions): Promise<void> {
  await helm.upgrade(release);
  installed.set(`${release.namespace}/${release.release}`, release);
}

/** Returns the message with which Helm rejected the attempt. */
export async function refusal(attempt: Promise<unknown>): Promise<string> {
  const outcome = await attempt.catch((error: unknown) => error);
  expect(outcome).toBeInstanceOf(HelmError);
  return (outcome as HelmError).message;
}

export const off = { ha: { enabled: false } };
export const highlyAvailable = {
  replicas: 3,
  strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
  budgets: 1,
};
export const alone = { replicas: 1, strategy: { type: 'Recreate' }, budgets: 0 };

interface ReleaseState {
  readonly replicas: number | undefined;
  readonly strategy: { readonly type?: string; readonly rollingUpdate?: object } | undefined;
  /** The number of PodDisruptionBudgets. */
  readonly budgets: number;
}

/** Reads the release `demo` from the API server. */
export async function state(namespace: string): Promise<ReleaseState> {
  const { spec } = await cluster.client.get(Deployment, { namespace, name: 'demo-echoperator' });
  const budgets = await cluster.client.list(PodDisruptionBudget, { namespace });
  return { replicas: spec?.replicas, strategy: spec?.strategy, budgets: budgets.items.length };
}

/** A version of the chart with fewer values. It renders only a ConfigMap. @returns the folder */
export async function earlierChart(values: object): Promise<string> {
  const earlier = await mkdtemp(join(folder, 'earlier-'));
  await mkdir(join(earlier, 'templates'));
  await cp(join(chart, 'Chart.yaml'), join(earlier, 'Chart.yaml'));
  await writeFile(join(earlier, 'values.yaml'), stringify(values));
  const configMap = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'earlier' } };
  await writeFile(join(earlier, 'templates/configmap.yaml'), stringify(configMap));
  return earlier;
}

/** The controllers that the release `demo` runs. */
export async function controllersOf(namespace: string): Promise<string | undefined> {
  return (await cluster.client.get(ConfigMap, { namespace, name: 'demo-echoperator' })).data?.CONTROLLERS;
}

/** A chart with a Deployment as the original's: its labels name no part of this operator. @returns the folder */
export async function originalChart(): Promise<string> {
  const original = await earlierChart({});
  const labels = { 'app.kubernetes.io/name': 'echoperator', 'app.kubernetes.io/instance': 'demo' };
  const containers = [{ name: 'echoperator', image: 'mmontes11/echoperator:v0.0.1' }];
  const deployment = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'demo-echoperator', labels },
    spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers } } },
  };
  await writeFile(join(original, 'templates/deployment.yaml'), stringify(deployment));
  return original;
}

/** Copies the chart without the Deployment's strategy, like the original chart. @returns the folder */
export async function chartWithoutStrategy(): Promise<string> {
  const copy = await mkdtemp(join(folder, 'original-'));
  await cp(chart, copy, { recursive: true });
  const file = join(copy, 'templates/deployment.yaml');
  const without = (await readFile(file, 'utf8')).replaceAll(/^ {2}strategy:\n( {4}.*\n)+/gm, '');
  expect(without).not.toContain('strategy:');
  await writeFile(file, without);
  return copy;
}
