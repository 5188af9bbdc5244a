import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ClusterRole, Pod, Role, RoleBinding } from '@echoperator/runtime/kinds';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { parse } from 'yaml';
import { eventually } from '../../testkit/eventually.ts';
import { codeBlocks } from '../../testkit/markdown.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';
import { assignRange, enforceRestrictedV2, idRange } from './environment/openshift.ts';
import { allPodSpecs, standalonePod } from './environment/pods.ts';
import {
  cluster,
  first,
  helmOf,
  refusal,
  second,
  setUp,
  tearDown,
  uninstallAll,
  upgrade,
} from './environment/releases.ts';
import { ServiceMonitor, serveServiceMonitors } from './environment/service-monitors.ts';
import { type Helm, helmNames } from './helm.ts';

beforeAll(() => setUp());
afterEach(() => uninstallAll());
afterAll(() => tearDown());

const originalValues = `--values=${join(import.meta.dirname, '../../examples/values/original.yaml')}`;

/** Gives an account the rights in these namespaces that the page names. It may do nothing outside of them. */
async function createInstaller(namespaces: readonly string[]): Promise<string> {
  const [home = ''] = namespaces;
  const account = { name: 'installer', namespace: home };
  const page = await readFile(join(import.meta.dirname, '../../docs/install.md'), 'utf8');
  const { text = '' } = codeBlocks(page).find(({ text: block }) => block.includes('kind: ClusterRole')) ?? {};
  const role = parse(text);
  await cluster.client.apply(ClusterRole, role, { force: true });
  // The parts of the role `admin`: no controller aggregates them here.
  const admin = ['admin', 'edit', 'view'].map((part) => `system:aggregate-to-${part}`);
  for (const namespace of namespaces) {
    for (const name of [...admin, role.metadata.name]) {
      await cluster.client.create(RoleBinding, {
        metadata: { namespace, name },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
        subjects: [{ kind: 'ServiceAccount', ...account }],
      });
    }
  }
  return `system:serviceaccount:${account.namespace}:${account.name}`;
}

describe.each(helmNames)('on a cluster with the Prometheus operator, by %s', (name) => {
  let kind: Awaited<ReturnType<typeof serveServiceMonitors>>;
  let helm: Helm;
  beforeAll(async () => {
    kind = await serveServiceMonitors(cluster.client);
    helm = await helmOf(name);
    await eventually('Helm discovers ServiceMonitors', async () => {
      // `helm template` of Helm 3 does not ask which kinds the cluster serves.
      const notes = await helm.notes({}, { namespace: first, dryRun: 'server' });
      return !notes.includes('created no ServiceMonitor');
    });
  });
  afterAll(() => kind.remove());

  const monitors = async (namespace: string) =>
    (await cluster.client.list(ServiceMonitor, { namespace })).items.map(({ metadata }) => metadata.name);

  test("the ServiceMonitor is in the release's namespace by default", async () => {
    await upgrade(helm, { namespace: first });
    expect(await monitors(first)).toEqual([`demo-echoperator.${first}`]);
  });

  test("the original's values file installs although its namespace for ServiceMonitors is missing, and the notes say so", async () => {
    await upgrade(helm, { namespace: first, flags: [originalValues] });
    expect(await monitors('')).toEqual([]);
    const notes = await helm.notes(
      { monitoring: { namespace: 'observability' } },
      { namespace: first, dryRun: 'server' },
    );
    expect(notes).toContain('created no ServiceMonitor, because its namespace "observability" does not exist');
  });

  test('what else the values ask for is left out too if its namespace is missing, and the notes say so', async () => {
    const values = {
      monitoring: { namespace: 'observability' },
      metrics: {
        podMonitor: { enabled: true },
        prometheusRule: { enabled: true, namespace: 'rules' },
        dashboards: { enabled: true },
      },
    };
    await upgrade(helm, { namespace: first, values });
    const notes = await helm.notes(values, { namespace: first, dryRun: 'server' });
    expect(notes).toContain('created no PodMonitor, because its namespace "observability" does not exist');
    // As a text: a namespace's name may look like a number.
    expect(notes).toContain(`pass \`--set-string metrics.podMonitor.namespace=${first}\``);
    expect(notes).toContain('created no PrometheusRule, because its namespace "rules" does not exist');
    expect(notes).toContain('created no dashboards, because their namespace "observability" does not exist');
    expect(notes).not.toContain('created no ServiceMonitor');
  });

  test('the ServiceMonitor is in another namespace that exists, and leaves it with the value', async () => {
    await upgrade(helm, { namespace: first, values: { monitoring: { namespace: second } } });
    expect(await monitors(second)).toEqual([`demo-echoperator.${first}`]);
    await upgrade(helm, { namespace: first });
    expect(await monitors(second)).toEqual([]);
  });

  test('scope.namespaced installs, upgrades and uninstalls with an account that may do nothing outside its namespaces', async () => {
    const [namespace, watched] = [await cluster.namespace(), await cluster.namespace()];
    const asInstaller = [`--kube-as-user=${await createInstaller([namespace, watched])}`];
    const flags = asInstaller;
    expect(await refusal(upgrade(helm, { namespace, flags }))).toContain('is forbidden');
    const values = { scope: { namespaced: true }, networkPolicy: { enabled: true } };
    await upgrade(helm, { namespace, values, flags });
    expect(await monitors(namespace)).toEqual([`demo-echoperator.${namespace}`]);
    await upgrade(helm, {
      namespace,
      values: {
        ...values,
        watchNamespaces: [watched],
        petstore: { enabled: true, tls: { enabled: false } },
        // The account may create nothing in this namespace.
        monitoring: { namespace: second },
      },
      flags,
    });
    const roles = async (at: string) =>
      (await cluster.client.list(Role, { namespace: at })).items.map(({ metadata }) => metadata.name).sort();
    expect(await roles(watched)).toEqual([`demo-echoperator.${namespace}`]);
    expect(await monitors('')).toEqual([]);
    await helm.uninstall({ namespace, flags: asInstaller });
    expect(await roles(watched)).toEqual([]);
    expect(await roles(namespace)).toEqual([]);
  });
});

const everyPod = { controllers: { pet: { enabled: true } }, petstore: { enabled: true, tls: { enabled: false } } };

/** Creates each pod of a release. Returns the error of each that the API server refuses, by the pod's name. */
async function refusals(values: object, namespace: string): Promise<ReadonlyMap<string, string>> {
  const specs = allPodSpecs(await (await helmOf('helm4')).render({ values, namespace }));
  expect(specs.size).toBe(9);
  const refused = new Map<string, string>();
  for (const [name, spec] of specs) {
    await cluster.client.create(Pod, standalonePod(namespace, spec)).catch((error: unknown) => {
      refused.set(name, String(error));
    });
  }
  return refused;
}

test('a namespace with Pod Security restricted accepts every pod of the chart and of the operator', async () => {
  const namespace = await cluster.namespace({ 'pod-security.kubernetes.io/enforce': 'restricted' });
  expect(Object.fromEntries(await refusals(everyPod, namespace))).toEqual({});
  // The level is enforced.
  const insecure = { bookStore: { securityContext: null } };
  expect([...(await refusals({ ...everyPod, ...insecure }, namespace)).keys()]).toEqual([
    'app of a BookStore',
    'database of a BookStore',
  ]);
});

test("OpenShift's restricted-v2 accepts every pod if the values leave out the fixed IDs", async () => {
  const namespace = await cluster.namespace();
  await enforceRestrictedV2(cluster.client);
  await assignRange(cluster.client, namespace);
  const withFixedIds = [
    'Echo',
    'PodSet',
    'StatefulSet/demo-echoperator-petstore',
    'app of a BookStore',
    'database of a BookStore',
  ];
  await eventually('the policies are in force', async () => (await refusals(everyPod, namespace)).size > 0);
  const refused = await refusals(everyPod, namespace);
  expect([...refused.keys()].sort()).toEqual(withFixedIds);
  for (const error of refused.values()) expect(error).toContain('is not in the range of the namespace');

  // The values that the page shows.
  const page = await readFile(join(import.meta.dirname, '../../docs/install.md'), 'utf8');
  const { text = '' } = codeBlocks(page).find(({ text: block }) => block.includes('fsGroup: null')) ?? {};
  const openShift = parse(text);
  const petstore = { ...everyPod.petstore, ...openShift.petstore };

  const { items: before } = await cluster.client.list(Pod, { namespace });
  expect(Object.fromEntries(await refusals({ ...everyPod, ...openShift, petstore }, namespace))).toEqual({});
  const { items } = await cluster.client.list(Pod, { namespace });
  const added = items.filter(({ metadata }) => before.every((pod) => pod.metadata.uid !== metadata.uid));
  expect(added).toHaveLength(9);
  for (const { spec } of added) {
    expect(spec?.securityContext).toMatchObject({ fsGroup: idRange.first });
    expect(spec?.containers[0]?.securityContext).toMatchObject({ runAsUser: idRange.first });
  }
});

/** Reads the objects without what controllers write. The generation stays, which each change of a spec increases. */
async function desiredState(run: (...command: readonly string[]) => Promise<{ stdout: string }>): Promise<unknown> {
  const { stdout } = await run('get', '--output=json');
  return JSON.parse(stdout, (key, value) =>
    ['status', 'resourceVersion', 'managedFields', 'deployment.kubernetes.io/revision'].includes(key)
      ? undefined
      : value,
  );
}

const everythingOn = { ...everyPod, networkPolicy: { enabled: true }, podLabels: { team: 'a' } };

describe.each([
  ['defaults', {}],
  ['everything on', everythingOn],
  ['scope.namespaced', { scope: { namespaced: true } }],
])('for Argo CD and Flux, with %s', (_, values) => {
  test('rendering does not depend on the cluster', async () => {
    const helm = await helmOf('helm4');
    const namespace = await cluster.namespace();
    const withCluster = await helm.render({ values, namespace, dryRun: 'server' });
    expect((await helm.render({ values, namespace })).manifests).toEqual(withCluster.manifests);
  });

  test('hooks have only the kinds and policies that both know', async () => {
    const { manifests } = await (await helmOf('helm4')).render({ values });
    const hooks = manifests.map(({ metadata }) => metadata?.annotations ?? {}).filter((each) => each['helm.sh/hook']);
    expect(hooks.length).toBeGreaterThan(0);
    for (const annotations of hooks) {
      expect(['pre-install,pre-upgrade', 'pre-delete', 'test']).toContain(annotations['helm.sh/hook']);
      expect(['before-hook-creation,hook-succeeded', 'before-hook-creation']).toContain(
        annotations['helm.sh/hook-delete-policy'],
      );
    }
  });
});

test('applying the manifests with everything on twice changes nothing, as Argo CD and Flux do', async () => {
  const namespace = await cluster.namespace();
  const { manifests } = await (await helmOf('helm4')).render({ values: everythingOn, namespace });
  const items = manifests.filter(({ metadata }) => metadata?.annotations?.['helm.sh/hook'] === undefined);
  const input = JSON.stringify({ apiVersion: 'v1', kind: 'List', items });
  const kubectl = (await ensureBinaries(['kubectl'])).get('kubectl') ?? '';
  const run = (...command: readonly string[]) =>
    execa(kubectl, [...command, '--filename=-'], { input, env: { KUBECONFIG: cluster.kubeconfig } });
  try {
    await run('apply');
    // Fails if there is a difference.
    await run('diff');
    const before = await desiredState(run);
    await run('apply');
    expect(await desiredState(run)).toEqual(before);
  } finally {
    await run('delete', '--wait=false');
  }
});
