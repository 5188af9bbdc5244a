import type { Pod } from '@echoperator/runtime/kinds';
import { expect, test } from '@jest/globals';
import { newScalingState, Scaling, type ScalingOptions } from '../../../../src/kinds/pod-set/scaling.ts';
import { podSettings } from '../../../../testkit/pod-settings.ts';
import { podOf, podSetOf } from './pod-sets.ts';

/** One step of a PodSet of so many replicas that has these pods. The API server does all that is asked. */
async function step(replicas: number, pods: readonly Pod[]): Promise<Scaling> {
  const set = podSetOf({ spec: { replicas } });
  const context = {
    memory: newScalingState(),
    get: () => undefined,
    tryCreateOnce: async (_: unknown, { metadata }: Pod) => ({ type: 'created', object: podOf(set, metadata.name) }),
    delete: async () => 'deleted',
  } as unknown as ScalingOptions['context'];
  const scaling = new Scaling({ set, pods, context, defaultPod: podSettings });
  await scaling.run();
  return scaling;
}

test('a step creates up to 500 pods, and another follows', async () => {
  const { created, isIncomplete } = await step(4000, []);
  expect([created.length, isIncomplete]).toEqual([500, true]);
  expect((await step(500, [])).isIncomplete).toBe(false);
});

test('a step deletes up to 500 pods', async () => {
  const pods = Array.from({ length: 510 }, (_, index) => podOf(podSetOf(), `web-pod-${index}`));
  const { deleted, active } = await step(0, pods);
  expect([deleted.length, active.length]).toEqual([500, 10]);
});
