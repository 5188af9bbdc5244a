import { type Condition, findCondition } from '@echoperator/runtime';
import { setCondition } from '@echoperator/runtime/controller';
import { describe, expect, test } from '@jest/globals';

const earlier = '2026-01-01T00:00:00Z';
const now = new Date('2026-02-03T04:05:06.789Z');
const ready: Condition = {
  type: 'Ready',
  status: 'False',
  reason: 'Starting',
  message: 'it starts',
  lastTransitionTime: earlier,
  observedGeneration: 1,
};
/** Somebody else's, with a field that we do not know. */
const foreign = { ...ready, type: 'Foreign', severity: 'Info' } as Condition;

describe.each<[unknown, number]>([
  ['x', 0],
  [{}, 0],
  [5, 0],
  [null, 0],
  [[null, 'x', [], foreign], 1],
])('%j in the place of conditions, stored under another definition,', (stored, kept) => {
  const conditions = stored as readonly Condition[];

  test('is no condition', () => {
    expect(findCondition(conditions, 'Ready')).toBeUndefined();
  });

  test('is replaced when one is set', () => {
    const set = setCondition(conditions, { type: 'Ready', status: 'True', reason: 'Done', message: '' }, now);
    expect(set.map(({ type }) => type)).toEqual([...(kept === 1 ? ['Foreign'] : []), 'Ready']);
  });
});

describe('setCondition', () => {
  test('a new condition has the time in whole seconds, as the API server formats it', () => {
    const desired = { type: 'Ready', status: 'True', reason: 'Done', message: '' } as const;
    const expected = [{ ...desired, lastTransitionTime: '2026-02-03T04:05:06Z' }];
    expect(setCondition(undefined, desired, now)).toEqual(expected);
    expect(setCondition([], desired, now)).toEqual(expected);
  });

  test('the time changes with the status', () => {
    const [condition] = setCondition([ready], { ...ready, status: 'True' }, now);
    expect(condition).toEqual({ ...ready, status: 'True', lastTransitionTime: '2026-02-03T04:05:06Z' });
  });

  test('the time does not change with reason, message or generation', () => {
    const desired = {
      type: 'Ready',
      status: 'False',
      reason: 'Failing',
      message: 'no',
      observedGeneration: 2,
    } as const;
    expect(setCondition([ready], desired, now)).toEqual([{ ...desired, lastTransitionTime: earlier }]);
  });

  test('removes optional members that the new condition does not have', () => {
    const { observedGeneration: _, lastTransitionTime: __, ...desired } = ready;
    expect(setCondition([ready], desired, now)[0]).not.toHaveProperty('observedGeneration');
  });

  test('setting an equal condition returns an equal list', () => {
    const { lastTransitionTime: _, ...desired } = ready;
    expect(setCondition([foreign, ready], desired, now)).toEqual([foreign, ready]);
  });

  test('conditions of other types keep their content and position', () => {
    const last = { ...foreign, type: 'Last' };
    const conditions = setCondition([foreign, ready, last], { ...ready, status: 'Unknown' }, now);
    expect(conditions.map(({ type }) => type)).toEqual(['Foreign', 'Ready', 'Last']);
    expect(conditions[0]).toBe(foreign);
    expect(conditions[2]).toBe(last);
    expect(setCondition([foreign], ready, now)[0]).toBe(foreign);
  });

  test("truncates a message at the API's limit between characters, and always in the same way", () => {
    const desired = { ...ready, message: `${'x'.repeat(32_767)}👋 and more` };
    const once = setCondition([ready], desired, now);
    expect(once).toEqual([{ ...ready, message: 'x'.repeat(32_767) }]);
    expect(setCondition(once, desired, now)).toEqual(once);
  });

  test('drops the last of more conditions than the API server accepts, but not the one that is set', () => {
    const many = Array.from({ length: 9000 }, (_, index) => ({ ...foreign, type: `Foreign${index}` }));
    const kept = many.slice(0, 99);
    expect(setCondition(many, ready, now)).toEqual([...kept, { ...ready, lastTransitionTime: expect.any(String) }]);
    expect(setCondition([...many, ready], { ...ready, reason: 'Late' }, now)).toEqual([
      ...kept,
      { ...ready, reason: 'Late' },
    ]);
    const full = [...kept, ready];
    expect(setCondition(full, ready, now)).toEqual(full);
  });

  test.each([
    { type: 'x'.repeat(317) },
    { reason: 'x'.repeat(1025) },
    { message: 'x'.repeat(32_769) },
    { lastTransitionTime: `2026-01-01T00:00:00.${'0'.repeat(64)}Z` },
  ])('drops another condition that the API server would refuse', (excess) => {
    const unbounded = { ...foreign, ...excess };
    expect(setCondition([unbounded, ready], ready, now)).toEqual([ready]);
    expect(setCondition([{ ...ready, ...excess, type: 'Ready' }], ready, now)).toEqual([
      { ...ready, lastTransitionTime: expect.stringMatching(/^.{20}$/) },
    ]);
  });

  test('drops another condition whose generation may have been rounded', () => {
    expect(setCondition([{ ...foreign, observedGeneration: 2 ** 53 }, ready], ready, now)).toEqual([ready]);
    const largest = { ...foreign, observedGeneration: 2 ** 53 - 1 };
    expect(setCondition([largest, ready], ready, now)).toEqual([largest, ready]);
  });

  test('does not modify the given list', () => {
    const given = Object.freeze([Object.freeze({ ...ready })]);
    setCondition(given, { ...ready, status: 'True' }, now);
    expect(given).toEqual([ready]);
  });
});

test('findCondition finds a condition by type', () => {
  expect(findCondition([foreign, ready], 'Ready')).toBe(ready);
  expect(findCondition([foreign], 'Ready')).toBeUndefined();
  expect(findCondition(undefined, 'Ready')).toBeUndefined();
});

test('a stored condition that lacks members is kept as it is', () => {
  const partial = { type: 'Other', status: 'True' } as Condition;
  const ready = { type: 'Ready', status: 'True', reason: 'Fine', message: '' } as const;
  expect(setCondition([partial], ready, new Date(0))[0]).toBe(partial);
});
