import { describe, expect, it } from '@jest/globals';
import { Helm, helmNames } from './helm.ts';

describe.each(helmNames)('high availability, by %s', (name) => {
  const render = async (ha: object = {}, values: object = {}) =>
    (await Helm.find(name)).render({ values: { ...values, ha } });

  it('is the default: three replicas, and a new pod is ready before an old one stops', async () => {
    const rendering = await render();
    expect(rendering.one('Deployment').spec).toMatchObject({
      replicas: 3,
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
    });
    expect(rendering.one('ConfigMap').data).toMatchObject({ HA_ENABLED: 'true', HA_WARM_STANDBY: 'false' });
  });

  it('takes the number of replicas and warm standbys from the values', async () => {
    const rendering = await render({ replicaCount: 5, warmStandby: true });
    expect(rendering.one('Deployment').spec?.replicas).toBe(5);
    expect(rendering.one('ConfigMap').data?.HA_WARM_STANDBY).toBe('true');
  });

  it('when off, runs one replica that stops before its successor starts', async () => {
    const rendering = await render({ enabled: false, replicaCount: 5 });
    const { replicas, strategy, template } = rendering.one('Deployment').spec!;
    expect({ replicas, strategy }).toEqual({ replicas: 1, strategy: { type: 'Recreate' } });
    expect(template.spec).not.toHaveProperty('topologySpreadConstraints');
    expect(rendering.all('PodDisruptionBudget')).toEqual([]);
    expect(rendering.one('ConfigMap').data?.HA_ENABLED).toBe('false');
  });

  it('allows the eviction of one replica at a time, and of any that is not ready', async () => {
    const rendering = await render({ replicaCount: 2 });
    expect(rendering.one('PodDisruptionBudget', 'demo-echoperator').spec).toEqual({
      maxUnavailable: 1,
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
      selector: rendering.one('Deployment').spec?.selector,
    });
    expect((await render({ replicaCount: 1 })).all('PodDisruptionBudget')).toEqual([]);
  });

  it('spreads the replicas of a revision over the nodes unless the values define constraints', async () => {
    const rendering = await render();
    const { selector, template } = rendering.one('Deployment').spec!;
    expect(template.spec?.topologySpreadConstraints).toEqual([
      {
        maxSkew: 1,
        topologyKey: 'kubernetes.io/hostname',
        whenUnsatisfiable: 'ScheduleAnyway',
        matchLabelKeys: ['pod-template-hash'],
        labelSelector: selector,
      },
    ]);
    const own = {
      maxSkew: 2,
      topologyKey: 'zone',
      whenUnsatisfiable: 'DoNotSchedule',
      labelSelector: { matchLabels: { a: 'b' } },
    };
    const spread = (await render({}, { topologySpreadConstraints: [own] })).one('Deployment').spec?.template.spec;
    expect(spread?.topologySpreadConstraints).toEqual([own]);
  });

  it.each([true, false])(
    'with ha.enabled=%s permits writing only its own Lease, and reading others and pods, in its own namespace',
    async (enabled) => {
      const rendering = await render({ enabled });
      const leases = { apiGroups: ['coordination.k8s.io'], resources: ['leases'] };
      const { metadata, rules } = rendering.one('Role', 'demo-echoperator-leader-election');
      expect(metadata?.namespace).toBe('operators');
      expect(rules).toEqual([
        {
          ...leases,
          resourceNames: [rendering.one('ConfigMap').data?.HA_LEASE_LOCK_NAME],
          verbs: ['get', 'list', 'watch', 'update', 'patch'],
        },
        { ...leases, verbs: ['create'] },
        { ...leases, verbs: ['list'] },
        { apiGroups: [''], resources: ['pods'], verbs: ['get', 'list', 'watch'] },
      ]);
      expect(rendering.one('RoleBinding')).toMatchObject({
        metadata: { name: 'demo-echoperator-leader-election', namespace: 'operators' },
        roleRef: { kind: 'Role', name: 'demo-echoperator-leader-election' },
        subjects: [{ kind: 'ServiceAccount', name: 'demo-echoperator', namespace: 'operators' }],
      });
    },
  );
});
