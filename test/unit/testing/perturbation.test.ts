import { ConfigMap, Secret } from '@echoperator/runtime/kinds';
import { expect, test } from '@jest/globals';
import type { RunningOperator } from '../../../packages/testing/src/perturb/operator.ts';
import { ChangeCounts, changesIn, TransitionTimes } from '../../../packages/testing/src/perturb/oracles.ts';
import {
  type WritePerturbation,
  writePerturbations,
} from '../../../packages/testing/src/perturb/perturbations/by-name.ts';
import type { PerturbedRun } from '../../../packages/testing/src/perturb/perturbations/perturbation.ts';
import { isNamed, type LearnedWrite, plansOf } from '../../../packages/testing/src/perturb/plans.ts';
import { proxiedRequest } from '../../../packages/testing/src/proxied-request.ts';

const write = (description: string, more: Partial<LearnedWrite> = {}): LearnedWrite => ({
  description,
  occurrence: 1,
  isVarying: false,
  ...more,
});

const state = new Map();

const scenario = { name: 'web', kinds: [ConfigMap, Secret], addControllers: () => {}, steps: {} };

const plans = plansOf({
  scenario,
  changes: new Map(),
  steps: [
    {
      name: 'create',
      state,
      eventKinds: [Secret],
      writes: [
        write('patch configmaps a'),
        write('AddPets', { occurrence: 2 }),
        write('delete secrets b', { isVarying: true }),
      ],
    },
    { name: 'delete', state, eventKinds: [], writes: [write('patch configmaps a'), write('delete secrets b')] },
  ],
});

const namesOf = (name: string, of = plans) => of.filter((plan) => isNamed(plan, name)).map((plan) => plan.name);

test('a plan is named by the number of its write, or by its description', () => {
  expect(namesOf('web/create patch configmaps a late')).toEqual(['web/create write 1 late']);
  expect(namesOf('web/create AddPets #2 late')).toEqual(['web/create write 2 late']);
  expect(namesOf('web/create write 2 late')).toEqual(['web/create write 2 late']);
  expect(namesOf('web/create AddPets #2')).toEqual(namesOf('web/create write 2'));
  expect(namesOf('web/create AddPets')).toEqual([]);
});

test('all plans of a scenario, of a step, and of a write are named exactly', () => {
  const writes = Array.from({ length: 12 }, (_, n) => write(`patch configmaps ${'a'.repeat(n + 1)}`));
  const steps = ['create', 'create-again'].map((name) => ({ name, state, eventKinds: [Secret], writes }));
  const both = ['web', 'web-shop'].flatMap((name) =>
    plansOf({ scenario: { ...scenario, name }, changes: new Map(), steps }),
  );
  const ofWeb = both.filter(({ name }) => name.startsWith('web/'));
  expect(namesOf('web', both)).toEqual(ofWeb.map(({ name }) => name));
  expect(namesOf('web/create', both)).toEqual(
    ofWeb.map(({ name }) => name).filter((name) => name.startsWith('web/create ')),
  );
  const ofFirst = ofWeb.map(({ name }) => name).filter((name) => name.startsWith('web/create write 1 '));
  expect(ofFirst).toHaveLength(10);
  expect(namesOf('web/create write 1', both)).toEqual(ofFirst);
  expect(namesOf('web/create patch configmaps a', both)).toEqual(ofFirst);
  expect(namesOf('web/create Secret', both)).toEqual(['web/create Secret lagging', 'web/create Secret missed']);
  for (const part of ['', 'we', 'web/creat', 'web/create write', 'web/create patch', 'web/create write 1 un'])
    expect(namesOf(part, both)).toEqual([]);
});

test('only views in which something happens are perturbed', () => {
  expect(namesOf('web/create Secret')).toEqual(['web/create Secret lagging', 'web/create Secret missed']);
  expect(namesOf('web/create ConfigMap')).toEqual([]);
  expect(namesOf('web/delete Secret')).toEqual([]);
});

test('changed objects are overtaken, but not the children in the last step', () => {
  const overtaken = plans.filter(({ target }) => target.perturbation === 'overtaken').map(({ name }) => name);
  expect(overtaken).toEqual([
    'web/create write 1 overtaken',
    'web/create write 3 overtaken',
    'web/delete write 1 overtaken',
  ]);
});

test('an operator with another system is not restarted into the past', () => {
  const steps = [{ name: 'create', state, eventKinds: [], writes: [write('AddPets')] }];
  const isInPast = (tried: typeof plans) => tried.some(({ target }) => target.perturbation === 'past');
  expect(isInPast(plans)).toBe(true);
  expect(isInPast(plansOf({ scenario: { ...scenario, external: async () => [] }, changes: new Map(), steps }))).toBe(
    false,
  );
});

test('where definitions change, no operator is restarted into the past, and nothing is overtaken', () => {
  const steps = [{ name: 'create', state, eventKinds: [], writes: [write('patch configmaps a')] }];
  const changing = { ...scenario, changesDefinitions: true };
  const left = plansOf({ scenario: changing, changes: new Map(), steps }).map(({ target }) => target.perturbation);
  expect(left).toEqual(['unsent', 'reply-lost', 'replied', 'late', 'stopped', 'cut-off', 'retried', 'stale']);
});

test('a plan may miss a write that not every undisturbed run sent', () => {
  const mayMiss = (name: string) => plans.filter((plan) => isNamed(plan, name)).map((plan) => plan.mayMiss);
  expect(mayMiss('web/create write 1 unsent')).toEqual([false]);
  expect(mayMiss('web/create write 1 stale')).toEqual([true]);
  expect(mayMiss('web/create write 3 unsent')).toEqual([true]);
});

async function outcomeOf(name: WritePerturbation): Promise<readonly string[]> {
  const log: string[] = [];
  const run = {
    note: () => {},
    hold: (release: () => void) => {
      log.push('held');
      release();
    },
    handOver: () => log.push('handed over'),
  } as unknown as PerturbedRun;
  const operator = {
    proxy: { crash: () => log.push('crash') },
    stop: async () => log.push('stopped'),
  } as unknown as RunningOperator;
  const write = { isForwarded: Promise.resolve(true), respond: () => log.push('responded') > 0 };
  const perturbation = new writePerturbations[name](run);
  expect(perturbation.isHit).toBe(false);
  const { isForwarded, respond } = perturbation.onPlannedExternalWrite!(write, operator);
  if (await isForwarded) {
    log.push('forwarded');
    log.push(respond() ? 'delivered' : 'not delivered');
  } else log.push('discarded');
  await new Promise(setImmediate);
  expect(perturbation.isHit).toBe(true);
  return log;
}

test.each([
  ['unsent', ['crash', 'discarded']],
  ['reply-lost', ['forwarded', 'responded', 'crash', 'not delivered']],
  ['replied', ['forwarded', 'responded', 'delivered', 'crash']],
  ['late', ['crash', 'held', 'forwarded', 'responded', 'not delivered']],
  ['retried', ['forwarded', 'responded', 'not delivered']],
  ['stale', ['forwarded', 'responded', 'not delivered']],
  ['stopped', ['stopped', 'handed over', 'forwarded', 'responded', 'delivered']],
] as const)('a write to another system, %s', async (perturbation, outcome) => {
  expect(await outcomeOf(perturbation)).toEqual(outcome);
});

test('an object that is created twice counts twice, and one that is deleted twice once', () => {
  const changes = new ChangeCounts();
  const options = { canonicalName: (name: string) => name.replace(/-\w+$/, '-*'), step: 'create', isLastStep: false };
  const created = (uid: string) => ({ status: 201, body: JSON.stringify({ metadata: { name: 'a-1', uid } }) });
  const create = proxiedRequest('POST', '/api/v1/namespaces/default/secrets');
  changes.record(create, created('1'), options);
  changes.record(create, created('2'), options);
  changes.record(create, { status: 409, body: '{}' }, options);
  changes.record(create, created('3'), { ...options, isLastStep: true });
  const remove = proxiedRequest('DELETE', '/api/v1/namespaces/default/secrets/a-1');
  const deleted = { status: 200, body: JSON.stringify({ details: { name: 'a-1', uid: '1' } }) };
  changes.record(remove, deleted, options);
  changes.record(remove, deleted, { ...options, step: 'update' });
  const counts = { 'create: secrets a-* created': 2, 'create: secrets a-* deleted': 1 };
  expect(Object.fromEntries(changes.facts)).toEqual(counts);
  changes.record(create, created('4'), { ...options, step: 'update' });
  expect(Object.fromEntries(changes.facts)).toEqual({ ...counts, 'update: secrets a-* created': 1 });
  expect(Object.fromEntries(changesIn(['create'], changes.facts))).toEqual(counts);
});

test('the transition time of a condition may change only with its status', () => {
  const times = new TransitionTimes();
  const object = (status: 'True' | 'False', lastTransitionTime: string, resourceVersion = lastTransitionTime) => ({
    metadata: { name: 'a', namespace: 'default', uid: '1', resourceVersion, creationTimestamp: '' },
    status: { conditions: [{ type: 'Ready', status, reason: 'Some', message: '', lastTransitionTime }] },
  });
  expect(times.observe('ADDED', object('False', '1'))).toBeUndefined();
  expect(times.observe('MODIFIED', object('True', '2'))).toBeUndefined();
  expect(times.observe('ADDED', object('True', '3'))).toBeUndefined();
  // Another operator receives an earlier version.
  expect(times.observe('MODIFIED', object('True', '2'))).toBeUndefined();
  expect(times.observe('MODIFIED', object('True', '3', '4'))).toBeUndefined();
  expect(times.observe('MODIFIED', object('True', '5'))).toMatch(/^the lastTransitionTime of a's condition Ready has/);
});
