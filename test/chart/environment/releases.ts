import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from '@jest/globals';
import { Deployment, PodDisruptionBudget } from '../../../src/runtime/kinds/index.ts';
import { type ControlPlane, startControlPlane } from '../../../testkit/control-plane.ts';
import { makeRunFolder } from '../../../testkit/run-folder.ts';
import { TestCluster } from '../../../testkit/test-cluster.ts';
import { chart, Helm, HelmError, type HelmName, type ReleaseOptions } from '../helm.ts';

export let cluster: TestCluster;
/** Namespaces for releases. */
export let [first, second, third] = ['', '', ''];
let folder: string;
let controlPlane: ControlPlane;
const installed = new Map<string, ReleaseOptions>();

/** A server of its own: releases find one another in the whole cluster. */
export async function setUp(): Promise<void> {
  folder = await makeRunFolder();
  controlPlane = await startControlPlane(folder, []);
  cluster = await TestCluster.at(controlPlane.config.kubeconfigPath, controlPlane.auditLog);
  [first, second, third] = [await cluster.namespace(), await cluster.namespace(), await cluster.namespace()];
}

export async function uninstallAll(): Promise<void> {
  const helm = await helmOf('helm4');
  for (const release of installed.values()) await helm.uninstall(release);
  installed.clear();
}

export async function tearDown(): Promise<void> {
  await cluster?.close();
  await controlPlane?.stop();
  await rm(folder, { recursive: true, force: true });
}

export const helmOf = (name: HelmName, chartFolder = chart) => Helm.find(name, chartFolder, cluster.kubeconfig);

/** Installs a release or upgrades it, until {@link uninstallAll}. */
export async function upgrade(helm: Helm, release: ReleaseOptions): Promise<void> {
  await helm.upgrade(release);
  installed.set(`${release.namespace}/${release.release}`, release);
}

/** What Helm said when it refused. */
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
  /** How many PodDisruptionBudgets. */
  readonly budgets: number;
}

/** What the API server has of the release `demo`. */
export async function state(namespace: string): Promise<ReleaseState> {
  const { spec } = await cluster.client.get(Deployment, { namespace, name: 'demo-echoperator' });
  const budgets = await cluster.client.list(PodDisruptionBudget, { namespace });
  return { replicas: spec?.replicas, strategy: spec?.strategy, budgets: budgets.items.length };
}

/** The chart with a Deployment as the original's: no word of its strategy. */
export async function chartWithoutStrategy(): Promise<string> {
  const copy = await mkdtemp(join(folder, 'original-'));
  await cp(chart, copy, { recursive: true });
  const file = join(copy, 'templates/deployment.yaml');
  const without = (await readFile(file, 'utf8')).replaceAll(/^ {2}strategy:\n( {4}.*\n)+/gm, '');
  expect(without).not.toContain('strategy:');
  await writeFile(file, without);
  return copy;
}
