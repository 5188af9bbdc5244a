import { ExplorationError, explore, jobController } from '@echoperator/testing/simulation';
import { describe, expect, test } from '@jest/globals';
import { kinds } from '../../../../src/operator.ts';
import { scenariosOn } from '../../../plans/index.ts';
import { naiveScenario } from '../../../seeded-bugs/naive-scenario.ts';

const scenarioOf = (name: string) => {
  const scenario = scenariosOn({ endPods: async () => {} }).find((each) => each.name === name);
  if (scenario === undefined) throw new Error(`there is no scenario ${name}`);
  return scenario;
};

const runs = 30;

describe.each(['echo', 'echo-name-taken', 'echo-in-motion', 'scheduled-echo', 'scheduled-echo-name-taken', 'pod-set'])(
  '%s',
  (name) => {
    test(`comes right under ${runs} random schedules`, async () => {
      const report = await explore({
        scenario: scenarioOf(name),
        customKinds: kinds,
        otherControllers: jobController,
        runs,
        shortens: false,
      });
      expect(report.steps).toBeGreaterThan(20 * runs);
    });
  },
);

test('every schedule with one deviation is tried, and each only once', async () => {
  const options = {
    scenario: scenarioOf('scheduled-echo-name-taken'),
    customKinds: kinds,
    otherControllers: jobController,
  };
  const undisturbed = await explore({ ...options, maxDeviations: 0 });
  expect(undisturbed.runs).toBe(1);
  const { runs: tried, steps } = await explore({ ...options, maxDeviations: 1 });
  expect(tried).toBeGreaterThan(undisturbed.steps);
  expect(steps).toBeGreaterThan(tried * 10);
  expect(await explore({ ...options, maxDeviations: 1 })).toEqual({ runs: tried, steps });
});

describe('a controller that gives its child another name each time', () => {
  const found = async (options: object = {}): Promise<unknown> =>
    explore({ scenario: naiveScenario, runs: 200, ...options }).catch((error: unknown) => error);

  test('is caught, and a short schedule repeats it', async () => {
    const error = await found();
    if (!(error instanceof ExplorationError)) throw new Error('no schedule has failed', { cause: error });
    expect(error.message).toMatch(/^naive: /);
    expect(error.story.length).toBeLessThan(100);
    const { schedule } = error;
    const again = await found({ schedule });
    expect(again).toBeInstanceOf(ExplorationError);
    expect((again as ExplorationError).message).toBe(error.message);
  });
});

describe('a scenario', () => {
  const scenario = scenarioOf('scheduled-echo');

  test('has only the steps disturbed that it names', async () => {
    const disturbed = new Set<string>();
    const perturbedSteps = ['cron-job-edited'];
    const steps = Object.fromEntries(
      Object.entries(scenario.steps).map(([name, act]) => [
        name,
        (world: Parameters<typeof act>[0]) => {
          current = name;
          return act(world);
        },
      ]),
    );
    let current = '';
    await explore({
      scenario: { ...scenario, steps, perturbedSteps },
      customKinds: kinds,
      runs: 10,
      // Is called whenever something may happen.
      otherControllers: (simulation) => {
        if (/crashes|break|forgets/.test(simulation.story.at(-1) ?? '')) disturbed.add(current);
        return [];
      },
    });
    expect([...disturbed]).toEqual(perturbedSteps);
  });

  test.each([{ outside: async () => [] }, { alwaysOutside: () => undefined }, { changesDefinitions: true }] as const)(
    'is refused if it needs what a simulation does not have: %j',
    async (needs) => {
      const [option = ''] = Object.keys(needs);
      await expect(explore({ scenario: { ...scenario, ...needs }, customKinds: kinds })).rejects.toThrow(
        `scheduled-echo: explore knows no \`${option}\``,
      );
    },
  );
});
