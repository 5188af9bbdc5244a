import { keyOf } from '@echoperator/runtime';
import { beforeEach, expect, test } from '@jest/globals';
import { RequestedChildren } from '../../../../packages/runtime/src/controller/requested-children.ts';
import { Part, stored, Widget } from '../../../../testkit/widgets.ts';

const owner = stored('a', '1');
const partKey = (name: string) => ({ name, namespace: 'default' });

let children: RequestedChildren;
beforeEach(() => {
  children = new RequestedChildren();
});

/** A reconcile of the owner that asks for these Parts. */
function reconcile(names: readonly string[], object = owner): void {
  const asked = children.begin(object);
  for (const name of names) asked.ask(Part, partKey(name));
  asked.end();
}

const ownersOf = (name: string, kind: typeof Part | typeof Widget = Part): readonly string[] =>
  children.ownersOf(kind, partKey(name)).map((key) => key.name);

test('the owners of a child are those that asked for it, of its kind', () => {
  reconcile(['p']);
  reconcile(['p'], stored('b', '2'));
  expect(children.ownersOf(Part, partKey('p'))).toEqual([owner, stored('b', '2')].map(keyOf));
  expect(ownersOf('p', Widget)).toEqual([]);
});

test('a reconcile replaces what an earlier one has asked for, unless it asks for nothing', () => {
  reconcile(['p', 'q']);
  reconcile([]);
  expect([ownersOf('p'), ownersOf('q')]).toEqual([['a'], ['a']]);
  reconcile(['q']);
  expect([ownersOf('p'), ownersOf('q')]).toEqual([[], ['a']]);
});

test('a child is watched as soon as it is asked for', () => {
  const asked = children.begin(owner);
  asked.ask(Part, partKey('p'));
  expect(ownersOf('p')).toEqual(['a']);
});

test('the deletion of a child is remembered, also one between or during reconciles that do not ask for it', () => {
  const wasDeleted = (name: string, object = owner): boolean => {
    const asked = children.begin(object);
    asked.ask(Part, partKey(name));
    return asked.wasDeleted(Part, partKey(name));
  };
  expect(wasDeleted('p')).toBe(false);
  children.deleted(owner, Part, stored('p', '5'));
  expect(wasDeleted('p')).toBe(true);
  const other = children.begin(owner);
  children.deleted(owner, Part, stored('q', '6'));
  other.ask(Part, partKey('p'));
  other.end();
  expect(wasDeleted('q')).toBe(true);
  // Another object of this name.
  expect(wasDeleted('q', stored('a', '9', { uid: 'uid-again' }))).toBe(false);
});

test('an owner that is gone leaves nothing behind', () => {
  reconcile(['p', 'q']);
  children.forget(keyOf(owner));
  expect([ownersOf('p'), ownersOf('q')]).toEqual([[], []]);
});
