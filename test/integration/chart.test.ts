import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { V1Deployment, V1PodDisruptionBudget, V1SubjectAccessReview } from '@kubernetes/client-node';
import { execa } from 'execa';
import { builtInKind } from '../../src/runtime/index.ts';
import { type ControlPlane, startControlPlane } from '../../testkit/control-plane.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';
import { chart, Helm, HelmError, type HelmName, helmNames, type ReleaseOptions } from '../chart/helm.ts';

const Deployment = builtInKind<V1Deployment>({
  group: 'apps',
  version: 'v1',
  kind: 'Deployment',
  plural: 'deployments',
});
const PodDisruptionBudget = builtInKind<V1PodDisruptionBudget>({
  group: 'policy',
  version: 'v1',
  kind: 'PodDisruptionBudget',
  plural: 'poddisruptionbudgets',
});
const SubjectAccessReview = builtInKind<V1SubjectAccessReview>({
  group: 'authorization.k8s.io',
  version: 'v1',
  kind: 'SubjectAccessReview',
  plural: 'subjectaccessreviews',
  scope: 'Cluster',
});

let folder: string;
let controlPlane: ControlPlane;
let cluster: TestCluster;
let [first, second, third] = ['', '', ''];
const installed = new Map<string, ReleaseOptions>();

// A server of its own: releases find one another in the whole cluster.
beforeAll(async () => {
  folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'chart-'));
  controlPlane = await startControlPlane(folder, []);
  cluster = await TestCluster.at(controlPlane.config.kubeconfigPath, controlPlane.auditLog);
  [first, second, third] = [await cluster.namespace(), await cluster.namespace(), await cluster.namespace()];
});

afterEach(async () => {
  const helm = await helmOf('helm4');
  for (const release of installed.values()) await helm.uninstall(release);
  installed.clear();
});

afterAll(async () => {
  await cluster?.close();
  await controlPlane?.stop();
  await rm(folder, { recursive: true, force: true });
});

const helmOf = (name: HelmName, chartFolder = chart) => Helm.find(name, chartFolder, cluster.kubeconfig);

/** Installs a release or upgrades it; it is uninstalled after the test. */
async function upgrade(helm: Helm, release: ReleaseOptions): Promise<void> {
  await helm.upgrade(release);
  installed.set(`${release.namespace}/${release.release}`, release);
}

const off = { ha: { enabled: false } };
const highlyAvailable = {
  replicas: 3,
  strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
  budgets: 1,
};
const alone = { replicas: 1, strategy: { type: 'Recreate' }, budgets: 0 };

/** What the API server has of the release `demo`. */
async function state(namespace: string) {
  const { spec } = await cluster.client.get(Deployment, { namespace, name: 'demo-echoperator' });
  const budgets = await cluster.client.list(PodDisruptionBudget, { namespace });
  return { replicas: spec?.replicas, strategy: spec?.strategy, budgets: budgets.items.length };
}

describe.each(helmNames)('ha.enabled, by %s', (name) => {
  test('is switched off and on by an upgrade, and by a rollback', async () => {
    const helm = await helmOf(name);
    await upgrade(helm, { namespace: first });
    expect(await state(first)).toEqual(highlyAvailable);
    await upgrade(helm, { namespace: first, values: off });
    expect(await state(first)).toEqual(alone);
    await upgrade(helm, { namespace: first });
    expect(await state(first)).toEqual(highlyAvailable);
    await helm.rollback(2, { namespace: first });
    expect(await state(first)).toEqual(alone);
  });

  test('is switched on for a release of the original chart, which left the strategy to the cluster', async () => {
    await upgrade(await helmOf(name, await chartWithoutStrategy()), { namespace: first, values: off });
    expect((await state(first)).strategy?.rollingUpdate).toEqual({ maxSurge: '25%', maxUnavailable: '25%' });
    const helm = await helmOf(name);
    await upgrade(helm, { namespace: first });
    expect(await state(first)).toEqual(highlyAvailable);
    await upgrade(helm, { namespace: first, values: off });
    expect(await state(first)).toEqual(alone);
  });
});

test('ha.enabled stays off for such a release of Helm 4 if it applies on the client', async () => {
  await upgrade(await helmOf('helm4', await chartWithoutStrategy()), { namespace: first, values: off });
  const helm = await helmOf('helm4');
  await expect(upgrade(helm, { namespace: first, values: off })).rejects.toThrow('spec.strategy.rollingUpdate');
  await upgrade(helm, { namespace: first, values: off, flags: ['--server-side=false'] });
  expect(await state(first)).toEqual(alone);
});

test.each([[[]], [['--server-side=true', '--force-conflicts']]])(
  'ha.enabled of a release that Helm 3 made is switched by Helm 4, with %j',
  async (flags) => {
    await upgrade(await helmOf('helm'), { namespace: first });
    const helm = await helmOf('helm4');
    await upgrade(helm, { namespace: first, values: off, flags });
    expect(await state(first)).toEqual(alone);
    await upgrade(helm, { namespace: first, flags });
    expect(await state(first)).toEqual(highlyAvailable);
  },
);

/** The chart with a Deployment as the original's: no word of its strategy. */
async function chartWithoutStrategy(): Promise<string> {
  const copy = await mkdtemp(join(folder, 'original-'));
  await cp(chart, copy, { recursive: true });
  const file = join(copy, 'templates/deployment.yaml');
  const without = (await readFile(file, 'utf8')).replaceAll(/^ {2}strategy:\n( {4}.*\n)+/gm, '');
  expect(without).not.toContain('strategy:');
  await writeFile(file, without);
  return copy;
}

test.each(helmNames)(
  'an uninstallation that is not let pass takes nothing away, and the release can go on, by %s',
  async (name) => {
    const helm = await helmOf(name);
    const release = { namespace: first };
    await upgrade(helm, release);
    // There is no node: the check never ends.
    await expect(helm.uninstallAfterCheck(release, '3s')).rejects.toThrow(HelmError);
    expect(await state(first)).toEqual(highlyAvailable);
    await expect(upgrade(helm, release)).rejects.toThrow('has no deployed releases');
    await helm.rollback(1, release);
    await upgrade(helm, release);
    expect(await state(first)).toEqual(highlyAvailable);
  },
);

describe.each(helmNames)('a scope that overlaps, by %s', (name) => {
  const refusal = async (attempt: Promise<unknown>): Promise<string> => {
    const outcome = await attempt.catch((error: unknown) => error);
    expect(outcome).toBeInstanceOf(HelmError);
    return (outcome as HelmError).message;
  };

  test('with a release that watches every namespace is refused where Helm asks the cluster', async () => {
    const helm = await helmOf(name);
    await upgrade(helm, { release: 'whole', namespace: first });
    const words = `release "whole" in namespace "${first}" watches every namespace already`;
    const sameName = { release: 'whole', namespace: second };
    const sameNamespace = { release: 'other', namespace: first, values: { nameOverride: 'voice' } };
    const list = { release: 'other', namespace: second, values: { watchNamespaces: [second] } };
    for (const other of [sameName, sameNamespace, list]) expect(await refusal(upgrade(helm, other))).toContain(words);
    expect(await refusal(helm.render({ ...sameName, dryRun: 'server' }))).toContain(words);
    expect((await helm.render(sameName)).all('Deployment')).toHaveLength(1);
    // The release itself is no other, whatever its objects are called.
    await upgrade(helm, { release: 'whole', namespace: first, values: { nameOverride: 'voice' } });
  });

  test('with a release that watches some namespaces is refused; of one name, with no namespace in common, both are', async () => {
    const helm = await helmOf(name);
    const words = `release "demo" in namespace "${first}" watches namespace "${second}" already`;
    await upgrade(helm, { namespace: first, values: { watchNamespaces: [first, second] } });
    const sharing = { namespace: third, values: { watchNamespaces: [third, second] } };
    expect(await refusal(upgrade(helm, sharing))).toContain(words);
    expect(await refusal(helm.render({ ...sharing, dryRun: 'server' }))).toContain(words);

    await upgrade(helm, { namespace: third, values: { watchNamespaces: [third] } });
    expect(await refusal(upgrade(helm, { namespace: third }))).toContain(`release "demo" in namespace "${first}"`);
    await upgrade(helm, { namespace: first, values: { watchNamespaces: [first] } });
    await upgrade(helm, sharing);
    await helm.uninstall({ namespace: first });
    await upgrade(helm, { namespace: third });
  });
});

describe('the rights of the operator', () => {
  const user = () => `system:serviceaccount:${first}:demo-echoperator`;

  /** Which of the verbs it may do. */
  const allowed = async (
    verbs: readonly string[],
    namespace: string,
    [group, resource, name = '']: readonly [group: string, resource: string, name?: string],
  ): Promise<readonly string[]> => {
    const answers = await Promise.all(
      verbs.map(async (verb) => {
        const spec = { user: user(), resourceAttributes: { verb, namespace, group, resource, name } };
        // Reviews have no name.
        const metadata = {} as { readonly name: string };
        const { status } = await cluster.client.create(SubjectAccessReview, { metadata, spec });
        return status?.allowed ? [verb] : [];
      }),
    );
    return answers.flat();
  };

  test('are in the namespaces that it watches, and for its Lease in its own', async () => {
    await upgrade(await helmOf('helm4'), { namespace: first, values: { watchNamespaces: [second] } });
    const verbs = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'];
    const watched = ['get', 'list', 'watch'];
    const [echos, jobs, pods] = [
      ['mmontes.io', 'echos'],
      ['batch', 'jobs'],
      ['', 'pods'],
    ] as const;
    const lease = ['coordination.k8s.io', 'leases', 'demo-echoperator'] as const;
    expect(await allowed(verbs, second, echos)).toEqual(watched);
    expect(await allowed(verbs, second, jobs)).toEqual(['list', 'watch', 'create', 'delete']);
    expect(await allowed(verbs, second, pods)).toEqual([...watched, 'create', 'patch', 'delete']);
    for (const other of [first, third]) {
      expect(await allowed(verbs, other, echos)).toEqual([]);
      expect(await allowed(verbs, other, jobs)).toEqual([]);
    }
    expect(await allowed(verbs, first, lease)).toEqual([...watched, 'create', 'update', 'patch']);
    expect(await allowed(verbs, first, ['coordination.k8s.io', 'leases', 'another'])).toEqual(['create']);
    expect(await allowed(verbs, first, pods)).toEqual(watched);
    expect(await allowed(verbs, second, lease)).toEqual([]);
    expect(await allowed(verbs, third, pods)).toEqual([]);
  });

  test('let it list the one Lease by its name, and no others', async () => {
    await upgrade(await helmOf('helm4'), { namespace: first });
    const kubectl = (await ensureBinaries(['kubectl'])).get('kubectl') ?? '';
    const list = (...selector: readonly string[]) =>
      execa(kubectl, ['get', 'leases', `--as=${user()}`, `--namespace=${first}`, ...selector], {
        env: { KUBECONFIG: cluster.kubeconfig },
        reject: false,
      });
    expect((await list('--field-selector=metadata.name=demo-echoperator')).stderr).toContain('No resources found');
    expect((await list()).stderr).toContain('Forbidden');
  });
});
