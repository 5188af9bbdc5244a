import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { stringify } from 'yaml';
import { kindsWithFinalizer } from '../../src/operator.ts';
import { chart, Helm, helmNames } from './helm.ts';
import type { Rendering } from './rendering.ts';

const scope = 'demo-echoperator.operators';

/** Lists `kind namespace` of the bindings that permit reconciles. */
const rights = (rendering: Rendering): readonly string[] =>
  rendering.manifests
    .filter(({ metadata }) => metadata?.name === scope)
    .map(({ kind, metadata }) => [kind, metadata?.namespace].filter((part) => part !== undefined).join(' '))
    .sort();

describe.each(helmNames)('the watched namespaces, by %s', (name) => {
  const render = async (values: object = {}) => (await Helm.find(name)).render({ values });

  it('are all namespaces by default', async () => {
    const rendering = await render();
    expect(rendering.one('ConfigMap').data?.WATCH_NAMESPACES).toBe('');
    expect(rights(rendering)).toEqual(['ClusterRole', 'ClusterRoleBinding']);
  });

  it('can be a list, and then the operator has permissions only in them', async () => {
    const rendering = await render({ watchNamespaces: ['team-b', 'operators'] });
    expect(rendering.one('ConfigMap').data?.WATCH_NAMESPACES).toBe('team-b,operators');
    expect(rights(rendering)).toEqual(['Role operators', 'Role team-b', 'RoleBinding operators', 'RoleBinding team-b']);
    const { rules } = (await render()).one('ClusterRole', scope);
    for (const role of rendering.all('Role').filter(({ metadata }) => metadata?.name === scope)) {
      expect(role.rules).toEqual(rules);
    }
    for (const binding of rendering.all('RoleBinding').filter(({ metadata }) => metadata?.name === scope)) {
      expect(binding.roleRef).toEqual({ apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: scope });
      expect(binding.subjects).toEqual([{ kind: 'ServiceAccount', name: 'demo-echoperator', namespace: 'operators' }]);
    }
  });

  it('as a list leave the operator no cluster-wide permission', async () => {
    const rendering = await render({ watchNamespaces: ['team-a'] });
    const bound = rendering.all('ClusterRoleBinding').flatMap(({ subjects = [] }) => subjects.map((one) => one.name));
    expect(bound).toEqual(['demo-echoperator-crds', 'demo-echoperator-uninstall']);
  });

  it('are all namespaces again when the list is removed', async () => {
    const rendering = await render({ watchNamespaces: null });
    expect(rendering.one('ConfigMap').data?.WATCH_NAMESPACES).toBe('');
    expect(rights(rendering)).toEqual(['ClusterRole', 'ClusterRoleBinding']);
  });
});

describe.each(helmNames)('scope.namespaced, by %s', (name) => {
  const render = async (values: object = {}) =>
    (await Helm.find(name)).render({ values: { scope: { namespaced: true }, ...values } });

  it('renders nothing outside of the watched namespaces and that of the release', async () => {
    const everything = {
      networkPolicy: { enabled: true },
      controllers: { pet: { enabled: true } },
      petstore: { enabled: true, tls: { enabled: false } },
      monitoring: { serviceMonitor: 'always' },
    };
    const { manifests } = await render({ ...everything, watchNamespaces: ['team-a', 'team-b'] });
    expect(manifests.filter(({ kind }) => kind.startsWith('Cluster'))).toEqual([]);
    const namespaces = new Set(manifests.map(({ metadata }) => metadata?.namespace));
    expect(namespaces).toEqual(new Set(['operators', 'team-a', 'team-b']));
  });

  it("watches the release's namespace if watchNamespaces is empty", async () => {
    const rendering = await render();
    expect(rendering.one('ConfigMap').data?.WATCH_NAMESPACES).toBe('operators');
    expect(rights(rendering)).toEqual(['Role operators', 'RoleBinding operators']);
    expect(rights(await render({ watchNamespaces: ['team-a'] }))).toEqual(['Role team-a', 'RoleBinding team-a']);
  });

  it('has no Job for CustomResourceDefinitions, and checks before an uninstallation as the operator', async () => {
    const rendering = await render();
    expect(rendering.all('Job').map(({ metadata }) => metadata?.name)).toEqual(['demo-echoperator-uninstall']);
    const { serviceAccountName, containers } = rendering.one('Job').spec!.template.spec!;
    expect(serviceAccountName).toBe('demo-echoperator');
    expect(containers[0]?.env).toContainEqual({ name: 'WATCH_NAMESPACES', value: 'operators' });
    const { rules = [] } = rendering.one('Role', scope);
    for (const { kind } of kindsWithFinalizer) {
      expect(rules).toContainEqual({ apiGroups: [kind.group], resources: [kind.plural], verbs: ['list'] });
    }
    const unchecked = await render({ uninstallCheck: { enabled: false } });
    expect(unchecked.all('Job')).toEqual([]);
    const finalized = new Set(kindsWithFinalizer.map(({ kind }) => kind.plural));
    expect(
      unchecked
        .one('Role', scope)
        .rules?.filter(({ resources = [], verbs }) => finalized.has(resources[0] ?? '') && verbs.join() === 'list'),
    ).toEqual([]);
  });
});

describe.each(helmNames)('two copies below one parent chart, by %s', (name) => {
  // Helm cannot tell that they watch the same namespace: they are one release, of which a copy sees only its own
  // values.
  it('have operators that see each other', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'parent-'));
    try {
      await cp(chart, join(folder, 'charts', 'echoperator'), { recursive: true });
      await mkdir(join(folder, 'templates'));
      const aliases = ['blue', 'green'];
      const dependencies = aliases.map((alias) => ({ name: 'echoperator', version: '*', repository: '', alias }));
      await writeFile(
        join(folder, 'Chart.yaml'),
        stringify({ apiVersion: 'v2', name: 'parent', version: '1.0.0', dependencies }),
      );
      const values = Object.fromEntries(aliases.map((alias) => [alias, { watchNamespaces: ['team-a'] }]));
      const rendering = await (await Helm.find(name, folder)).render({ values });
      const operators = rendering.all('ConfigMap').filter(({ data }) => data?.HA_LEASE_LOCK_NAME !== undefined);
      expect(operators.map(({ data }) => [data?.HA_LEASE_LOCK_NAME, data?.WATCH_NAMESPACES])).toEqual([
        ['demo-blue', 'team-a'],
        ['demo-green', 'team-a'],
      ]);
      for (const { metadata, data } of operators) {
        expect(metadata?.namespace).toBe('operators');
        const { rules } = rendering.one('Role', `${data?.HA_LEASE_LOCK_NAME}-leader-election`);
        expect(rules).toContainEqual({ apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['list'] });
      }
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
