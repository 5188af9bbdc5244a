import type { Condition, KubeObject, Predicate } from '@echoperator/runtime';
import type { Delta } from '@echoperator/runtime/cache';
import type { ObjectMeta } from '@echoperator/runtime/client';
import { describe, expect, test } from '@jest/globals';
import {
  deletion,
  generationChanged,
  ignoringConditionMessages,
  or,
} from '../../../../packages/runtime/src/controller/standard-predicates.ts';
import { stored, type Widget } from '../../../../testkit/widgets.ts';

const object = (rest: Partial<ObjectMeta> = {}) => stored('a', rest.resourceVersion ?? '1', rest);
const added = (rest: Partial<ObjectMeta> = {}): Delta<KubeObject> => ({ type: 'added', object: object(rest) });
const deleted: Delta<KubeObject> = { type: 'deleted', object: object() };
const modified = (before: Partial<ObjectMeta>, after: Partial<ObjectMeta>): Delta<KubeObject> => ({
  type: 'modified',
  previous: object({ resourceVersion: '1', ...before }),
  object: object({ resourceVersion: '2', ...after }),
});

const gone = { deletionTimestamp: '2026-01-01T00:00:00Z' };

describe('a predicate', () => {
  test.each<[string, Predicate<KubeObject>, Delta<KubeObject>, boolean]>([
    ['generationChanged', generationChanged, modified({ generation: 1 }, { generation: 2 }), true],
    ['generationChanged', generationChanged, modified({ generation: 1 }, { generation: 1, labels: { a: 'b' } }), false],
    ['generationChanged', generationChanged, modified({}, {}), true],
    ['deletion', deletion, modified({}, gone), true],
    ['deletion', deletion, modified(gone, gone), false],
    ['deletion', deletion, added(gone), true],
    ['deletion', deletion, added(), false],
    ['deletion', deletion, deleted, true],
  ])('returns the expected value: %s, case %#', (_, predicate, delta, passes) => {
    expect(predicate(delta)).toBe(passes);
  });

  test('generationChanged returns true for an addition and a deletion', () => {
    expect(generationChanged(added())).toBe(true);
    expect(generationChanged(deleted)).toBe(true);
  });
});

describe('predicates combine', () => {
  const yes: Predicate<KubeObject> = () => true;
  const no: Predicate<KubeObject> = () => false;
  const delta = added();

  test('with or', () => {
    expect([or(no, yes)(delta), or(no, no)(delta), or()(delta)]).toEqual([true, false, false]);
  });

  test('if one is for any object and one for one kind', () => {
    const wide: Predicate<ReturnType<typeof stored>> = ({ object: { spec } }) => spec?.size === 2;
    const both: Predicate<ReturnType<typeof stored>> = or(generationChanged, wide);
    expect(both({ type: 'added', object: stored('a', '1') })).toBe(true);
  });

  test('gives a function beside it the type of the object', () => {
    const isWideOrDeleted: Predicate<Widget> = or(deletion, (delta) => delta.object.spec?.size === 2);
    const wide = { type: 'added', object: { ...stored('a', '1'), spec: { size: 2 } } } as const;
    expect([isWideOrDeleted(wide), isWideOrDeleted(added() as Delta<Widget>)]).toEqual([true, false]);
  });
});

describe('ignoringConditionMessages', () => {
  const refused = {
    type: 'Ready',
    status: 'False',
    reason: 'Refused',
    message: 'no: 1',
    lastTransitionTime: '',
  } as const;
  const widget = (metadata: Partial<ObjectMeta>, conditions: readonly Condition[], phase = 'Pending') => ({
    ...object(metadata),
    status: { phase, conditions },
  });
  const previous = widget({ generation: 1 }, [refused]);
  const after = { resourceVersion: '2', generation: 1 };

  test.each([
    ['only messages of conditions', widget(after, [{ ...refused, message: 'no: 2' }]), false],
    ['a new generation', widget({ ...after, generation: 2 }, [refused]), true],
    ['a label', widget({ ...after, labels: { a: 'b' } }, [refused]), true],
    ['an annotation', widget({ ...after, annotations: { a: 'b' } }, [refused]), true],
    ['a finalizer', widget({ ...after, finalizers: ['a'] }, [refused]), true],
    ['the deletionTimestamp', widget({ ...after, ...gone }, [refused]), true],
    ['the uid', widget({ ...after, uid: 'other' }, [refused]), true],
    ['the reason of a condition', widget(after, [{ ...refused, reason: 'Other' }]), true],
    ['a removed condition', widget(after, []), true],
    ['another field of the status', widget(after, [refused], 'Done'), true],
  ])('returns, for a change of %s, %s', (_, changed, expected) => {
    expect(ignoringConditionMessages({ type: 'modified', previous, object: changed })).toBe(expected);
  });

  test('returns true for an addition and a deletion', () => {
    expect(ignoringConditionMessages(added())).toBe(true);
    expect(ignoringConditionMessages(deleted)).toBe(true);
  });
});
