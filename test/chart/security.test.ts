import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { readConfig } from '../../src/config.ts';
import { disabledPermissions } from '../../src/kinds/shared/disabled-controller.ts';
import { type ControllerName, controllerNames } from '../../src/kinds.ts';
import { controllers } from '../../src/operator.ts';
import { chart, Helm, helmNames } from './helm.ts';

describe.each(helmNames)('security, by %s', (name) => {
  const render = async (values: object = {}) => (await Helm.find(name)).render({ values });

  it('every pod satisfies more than the Pod Security Standard `restricted`', async () => {
    const specs = (await render()).podSpecs();
    expect([...specs.keys()].sort()).toEqual([
      'Deployment/demo-echoperator',
      'Job/demo-echoperator-crds',
      'Job/demo-echoperator-uninstall',
      'Pod/demo-echoperator-test',
    ]);
    for (const spec of specs.values()) {
      expect(spec.securityContext).toEqual({
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
      });
      for (const { securityContext } of spec.containers) {
        expect(securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
      }
      for (const field of ['hostNetwork', 'hostPID', 'hostIPC', 'volumes', 'initContainers']) {
        expect(spec).not.toHaveProperty(field);
      }
    }
  });

  it('every container has requests and a memory limit', async () => {
    for (const { containers } of (await render()).podSpecs().values()) {
      for (const { resources } of containers) {
        expect(resources).toEqual({ requests: { cpu: '50m', memory: '128Mi' }, limits: { memory: '512Mi' } });
      }
    }
  });

  it('null removes a default', async () => {
    const rendering = await render({
      podSecurityContext: { seccompProfile: null },
      resources: { limits: null },
    });
    for (const spec of rendering.podSpecs().values()) {
      expect(spec.securityContext).toEqual({ runAsNonRoot: true });
      expect(spec.containers[0]?.resources).toEqual({ requests: { cpu: '50m', memory: '128Mi' } });
    }
  });

  it('null removes every security context, also from the pods that the operator creates', async () => {
    const none = { podSecurityContext: null, securityContext: null };
    const rendering = await render({
      ...none,
      controllers: { pet: { enabled: true } },
      petstore: { enabled: true, tls: { enabled: false }, podSecurityContext: null },
      childPods: none,
      bookStore: none,
    });
    expect(rendering.podSpecs().size).toBe(5);
    for (const { securityContext, containers } of rendering.podSpecs().values()) {
      expect([securityContext, ...containers.map((each) => each.securityContext)]).toEqual([undefined, undefined]);
    }
    const { childPod, bookStore } = readConfig(rendering.one('ConfigMap').data!);
    expect([childPod.securityContext, childPod.containerSecurityContext]).toEqual([{}, {}]);
    expect(bookStore).toEqual({ podSecurityContext: {}, containerSecurityContext: {} });
  });

  it("the operator's own defaults for the pods that it creates are those of the chart", async () => {
    const { childPod, bookStore } = readConfig((await render()).one('ConfigMap').data!);
    const defaults = readConfig({});
    expect(bookStore).toEqual(defaults.bookStore);
    expect(childPod).toMatchObject({
      securityContext: defaults.childPod.securityContext,
      containerSecurityContext: defaults.childPod.containerSecurityContext,
    });
  });

  it('only pods that call the API server have a token, and no pod has service links', async () => {
    const specs = (await render()).podSpecs();
    for (const spec of specs.values()) expect(spec.enableServiceLinks).toBe(false);
    expect(Object.fromEntries([...specs].map(([pod, spec]) => [pod, spec.automountServiceAccountToken]))).toEqual({
      'Deployment/demo-echoperator': true,
      'Job/demo-echoperator-crds': true,
      'Job/demo-echoperator-uninstall': true,
      'Pod/demo-echoperator-test': false,
    });
    for (const account of (await render()).all('ServiceAccount')) {
      expect(account.automountServiceAccountToken).toBe(false);
    }
  });

  it('the operator runs as the ServiceAccount that the chart creates', async () => {
    const rendering = await render({ serviceAccount: { name: 'echo', annotations: { 'example.com/role': 'r' } } });
    expect(rendering.one('ServiceAccount', 'echo').metadata?.annotations).toEqual({ 'example.com/role': 'r' });
    expect(rendering.one('Deployment').spec?.template.spec?.serviceAccountName).toBe('echo');
    expect(rendering.one('ClusterRoleBinding', 'demo-echoperator.operators').subjects).toEqual([
      { kind: 'ServiceAccount', name: 'echo', namespace: 'operators' },
    ]);
  });

  it.each([
    [{ create: false }, 'default'],
    [{ create: false, name: 'given' }, 'given'],
  ])('creates no ServiceAccount with %j', async (serviceAccount, expected) => {
    const rendering = await render({ serviceAccount });
    expect(rendering.all('ServiceAccount').map(({ metadata }) => metadata?.name)).toEqual([
      'demo-echoperator-crds',
      'demo-echoperator-uninstall',
    ]);
    expect(rendering.one('Deployment').spec?.template.spec?.serviceAccountName).toBe(expected);
    expect(rendering.one('ClusterRoleBinding', 'demo-echoperator.operators').subjects?.[0]?.name).toBe(expected);
  });

  it('the operator may do exactly what its controllers declare', async () => {
    const rendering = await render({ controllers: { podSet: { enabled: true }, bookStore: { enabled: true } } });
    const on: readonly ControllerName[] = ['echo', 'scheduledEcho', 'podSet', 'bookStore'];
    const declared = [...controllerNames].sort().flatMap((each) => {
      const { kind, permissions } = controllers[each];
      return on.includes(each) ? permissions : disabledPermissions(kind);
    });
    const events = { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create', 'patch'] };
    // The chart has the rules of each controller in the order of their resources.
    const inOrder = (rules: readonly object[] = []) => rules.map((rule) => JSON.stringify(rule)).sort();
    expect(inOrder(rendering.one('ClusterRole', 'demo-echoperator.operators').rules)).toEqual(
      inOrder([...declared, events]),
    );
    expect(rendering.one('ClusterRoleBinding', 'demo-echoperator.operators').roleRef).toEqual({
      apiGroup: 'rbac.authorization.k8s.io',
      kind: 'ClusterRole',
      name: 'demo-echoperator.operators',
    });
  });

  it('for a kind whose controller is off the operator may only read the objects and write their status', async () => {
    const rendering = await render({ controllers: { scheduledEcho: { enabled: false } } });
    const rules = rendering.one('ClusterRole', 'demo-echoperator.operators').rules ?? [];
    const ofScheduledEchos = rules.filter(({ resources }) => /^(scheduledechos|cronjobs)\b/.test(String(resources)));
    expect(ofScheduledEchos.map(({ resources, verbs }) => `${resources} ${verbs}`)).toEqual([
      // An Echo waits while a CronJob has its name.
      'cronjobs list,watch',
      'scheduledechos get,list,watch',
      'scheduledechos/status patch',
    ]);
    expect(rendering.one('ConfigMap').data?.CONTROLLERS).toBe('echo');
  });

  it("adds the kinds whose effects stay in their namespace to the cluster's roles for users", async () => {
    const rendering = await render();
    const aggregated = rendering
      .all('ClusterRole')
      .map(({ metadata, rules }) => ({
        into: Object.keys(metadata?.labels ?? {})
          .filter((label) => label.startsWith('rbac.authorization.k8s.io/aggregate-to-'))
          .map((label) => label.slice('rbac.authorization.k8s.io/aggregate-to-'.length)),
        rules,
      }))
      .filter(({ into }) => into.length > 0);
    const read = ['get', 'list', 'watch'];
    const all = [...read, 'create', 'update', 'patch', 'delete', 'deletecollection'];
    const { aggregate } = parse(await readFile(join(chart, 'values.yaml'), 'utf8')).rbac;
    expect([aggregate.pet, aggregate.postgresWriter]).toEqual([false, false]);
    const kinds = controllerNames.filter((each) => aggregate[each]).map((each) => controllers[each].kind);
    const rulesOf = (verbs: readonly string[], scaleVerbs: readonly string[]) =>
      kinds.flatMap(({ group, plural }) => [
        { apiGroups: [group], resources: [plural], verbs },
        { apiGroups: [group], resources: [`${plural}/status`], verbs: ['get'] },
        ...(plural === 'podsets' ? [{ apiGroups: [group], resources: ['podsets/scale'], verbs: scaleVerbs }] : []),
      ]);
    expect(aggregated).toEqual([
      { into: ['admin', 'edit'], rules: rulesOf(all, ['get', 'update', 'patch']) },
      { into: ['admin', 'edit', 'view'], rules: rulesOf(read, ['get']) },
    ]);
  });
});
