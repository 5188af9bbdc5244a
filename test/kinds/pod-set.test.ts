import { afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { cluster, connect, deleteNamespaces } from './environment/cluster.ts';
import { kubectl, names, namespace, podSet, pods, settled } from './environment/pod-sets.ts';

beforeAll(connect);

afterEach(deleteNamespaces);

describe('a PodSet', () => {
  test('with 3 replicas runs 3 pods, and replaces a deleted one', async () => {
    await namespace();
    await cluster.apply(podSet('web', { replicas: 3 }));
    const three = await settled('web', 3);
    expect(names(await pods())).toEqual(three.status?.podNames);
    const [header, row] = (await kubectl('get', 'podsets')).split('\n');
    expect(header?.split(/\s+/)).toEqual(['NAME', 'DESIRED', 'CURRENT', 'READY', 'REASON', 'AGE']);
    expect(row).toMatch(/^web +3 +3 +3 +PodsReady +\S+$/);

    const [victim = '', ...others] = three.status?.podNames ?? [];
    await kubectl('delete', 'pod', victim);
    const again = await settled('web', 3);
    expect(again.status?.podNames).toEqual(expect.arrayContaining(others));
    expect(again.status?.podNames).not.toContain(victim);
  });
});
