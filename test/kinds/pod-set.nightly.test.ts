import { afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { PodSet } from '../../src/kinds/pod-set/kind.ts';
import { eventually } from '../../testkit/eventually.ts';
import { operatorWrites } from '../../testkit/operator-writes.ts';
import { cluster, connect, deleteNamespaces } from './environment/cluster.ts';
import { kubectl, namespace, ns, podSet, pods, scale, settled } from './environment/pod-sets.ts';

beforeAll(connect);

afterEach(deleteNamespaces);

describe('a PodSet', () => {
  test('is scaled to 2, to 4 and to 0 by kubectl scale, and deleted with its pods', async () => {
    await namespace();
    await cluster.apply(podSet('scaled', { replicas: 3 }));
    const three = await settled('scaled', 3);
    await scale('scaled', 2);
    const two = await settled('scaled', 2);
    expect(three.status?.podNames).toEqual(expect.arrayContaining([...(two.status?.podNames ?? [])]));
    await scale('scaled', 4);
    const four = await settled('scaled', 4);
    expect(four.status?.podNames).toEqual(expect.arrayContaining([...(two.status?.podNames ?? [])]));
    await scale('scaled', 0);
    expect((await settled('scaled', 0)).status?.podNames).toEqual([]);
    await eventually('the pods are gone', async () => (await pods()).length === 0);

    await scale('scaled', 2);
    await settled('scaled', 2);
    await kubectl('delete', 'podset', 'scaled');
    await eventually('the pods are gone with it', async () => (await pods()).length === 0);
  });

  test('is scaled by a HorizontalPodAutoscaler', async () => {
    await namespace();
    await cluster.apply(podSet('auto', { replicas: 1 }));
    await settled('auto', 1);
    // Outside of its bounds an autoscaler needs no metrics to know what to do.
    await cluster.apply({
      apiVersion: 'autoscaling/v2',
      kind: 'HorizontalPodAutoscaler',
      metadata: { name: 'auto', namespace: ns },
      spec: {
        scaleTargetRef: { apiVersion: 'app.example.com/v1alpha1', kind: 'PodSet', name: 'auto' },
        minReplicas: 3,
        maxReplicas: 5,
      },
    });
    await settled('auto', 3);
    const scaler = await eventually('the autoscaler reads the scale', async () => {
      const found = await cluster.get<Scaler>('hpa/auto', '--namespace', ns);
      return found.status?.desiredReplicas === 3 && found;
    });
    const able = scaler.status?.conditions?.find(({ type }) => type === 'AbleToScale');
    expect(able).toMatchObject({ status: 'True' });
    // What the autoscaler has set stays.
    expect((await settled('auto', 3)).spec.replicas).toBe(3);
  });

  test('that meets a full quota reports it, sends few requests, and continues when the quota is lifted', async () => {
    await namespace();
    const quota = { apiVersion: 'v1', kind: 'ResourceQuota', metadata: { name: 'full', namespace: ns } };
    await cluster.apply({ ...quota, spec: { hard: { pods: '2' } } });
    await kubectl('wait', '--for=jsonpath={.status.used.pods}=0', 'resourcequota/full');
    await cluster.apply(podSet('many', { replicas: 12 }));
    await kubectl('wait', '--for=jsonpath={.status.conditions[?(@.type=="Ready")].reason}=PodRefused', 'podset/many');
    const { status } = await cluster.get<PodSet>('podset/many', '--namespace', ns);
    expect(status?.conditions?.find(({ type }) => type === 'Ready')?.message).toContain('exceeded quota: full');
    const refused = await eventually('it has tried again', async () => {
      const found = (await operatorWrites(cluster.auditLog, ns)).filter(
        ({ verb, objectRef, responseStatus }) =>
          verb === 'create' && objectRef?.resource === 'pods' && responseStatus?.code === 403,
      );
      return found.length >= 3 && found;
    });
    // One a try, and not ten.
    expect(refused.length).toBeLessThan(3 * (12 - 2));
    await kubectl('delete', 'resourcequota', 'full');
    await settled('many', 12);
  });
});

interface Scaler {
  readonly status?: {
    readonly desiredReplicas?: number;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}
