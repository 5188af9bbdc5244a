import { describe, expect, test } from '@jest/globals';
import { type Condition, findCondition, setCondition } from '../../../../src/runtime/kind/index.ts';

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

describe('setCondition', () => {
  test('a first condition has the time in whole seconds, as the API server writes it', () => {
    const desired = { type: 'Ready', status: 'True', reason: 'Done', message: '' } as const;
    const expected = [{ ...desired, lastTransitionTime: '2026-02-03T04:05:06Z' }];
    expect(setCondition(undefined, desired, now)).toEqual(expected);
    expect(setCondition([], desired, now)).toEqual(expected);
  });

  test('the time moves with the status', () => {
    const [condition] = setCondition([ready], { ...ready, status: 'True' }, now);
    expect(condition).toEqual({ ...ready, status: 'True', lastTransitionTime: '2026-02-03T04:05:06Z' });
  });

  test('the time stays where only reason, message or generation change', () => {
    const desired = {
      type: 'Ready',
      status: 'False',
      reason: 'Failing',
      message: 'no',
      observedGeneration: 2,
    } as const;
    expect(setCondition([ready], desired, now)).toEqual([{ ...desired, lastTransitionTime: earlier }]);
  });

  test('what is no longer said is gone', () => {
    const { observedGeneration: _, lastTransitionTime: __, ...desired } = ready;
    expect(setCondition([ready], desired, now)[0]).not.toHaveProperty('observedGeneration');
  });

  test('setting what is there already returns an equal list', () => {
    const { lastTransitionTime: _, ...desired } = ready;
    expect(setCondition([foreign, ready], desired, now)).toEqual([foreign, ready]);
  });

  test("others' conditions stay as they are and where they are", () => {
    const last = { ...foreign, type: 'Last' };
    const conditions = setCondition([foreign, ready, last], { ...ready, status: 'Unknown' }, now);
    expect(conditions.map(({ type }) => type)).toEqual(['Foreign', 'Ready', 'Last']);
    expect(conditions[0]).toBe(foreign);
    expect(conditions[2]).toBe(last);
    expect(setCondition([foreign], ready, now)[0]).toBe(foreign);
  });

  test('a message that is too long for the API is cut, between characters, and the same again the next time', () => {
    const desired = { ...ready, message: `${'x'.repeat(32_767)}👋 and more` };
    const once = setCondition([ready], desired, now);
    expect(once).toEqual([{ ...ready, message: 'x'.repeat(32_767) }]);
    expect(setCondition(once, desired, now)).toEqual(once);
  });

  test('changes no list that it was given', () => {
    const given = Object.freeze([Object.freeze({ ...ready })]);
    setCondition(given, { ...ready, status: 'True' }, now);
    expect(given).toEqual([ready]);
  });
});

test('findCondition finds by type', () => {
  expect(findCondition([foreign, ready], 'Ready')).toBe(ready);
  expect(findCondition([foreign], 'Ready')).toBeUndefined();
  expect(findCondition(undefined, 'Ready')).toBeUndefined();
});
