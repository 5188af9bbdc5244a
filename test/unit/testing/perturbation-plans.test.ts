import { ConfigMap } from '@echoperator/runtime/kinds';
import { expect, test } from '@jest/globals';
import { plansOf } from '../../../packages/testing/src/perturb/plans.ts';

const step = (name: string) => ({
  name,
  writes: [{ description: 'create configmaps child', occurrence: 1, isVarying: false }],
  eventKinds: [ConfigMap],
  state: new Map(),
});

const plansWith = (perturbedSteps?: readonly string[]) =>
  plansOf({
    scenario: {
      name: 'example',
      kinds: [ConfigMap],
      addControllers: () => {},
      steps: { create: async () => {}, delete: async () => {} },
      ...(perturbedSteps && { perturbedSteps }),
    },
    steps: [step('create'), step('delete')],
    changes: new Map(),
  });

test('only the perturbed steps of a scenario have plans; by default all have', () => {
  const stepsOf = (plans: ReturnType<typeof plansOf>) => [...new Set(plans.map(({ step }) => step.name))];
  expect(stepsOf(plansWith())).toEqual(['create', 'delete']);
  expect(stepsOf(plansWith(['delete']))).toEqual(['delete']);
});
