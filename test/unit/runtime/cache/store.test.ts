import { keyOf, keyString } from '@echoperator/runtime';
import type { Delta } from '@echoperator/runtime/cache';
import { describe, expect, test } from '@jest/globals';
import { Store } from '../../../../packages/runtime/src/cache/store.ts';
import fc from '../../../../testkit/seeded-fast-check.ts';
import { Planet, stored, Widget } from '../../../../testkit/widgets.ts';

const byColour = (object: Widget): readonly string[] => object.metadata.labels?.colours?.split(' ') ?? [];
const coloured = (name: string, resourceVersion: string, colours: string): Widget =>
  stored(name, resourceVersion, { labels: { colours } });

describe('the delta', () => {
  test('of set is added or modified', () => {
    const store = new Store<Widget>();
    const [first, second] = [stored('a', '1'), stored('a', '2')];
    expect(store.set(first)).toEqual({ type: 'added', object: first });
    expect(store.set(second)).toEqual({ type: 'modified', object: second, previous: first });
    expect(store.get({ name: 'a', namespace: 'default' })).toBe(second);
    expect(store.size).toBe(1);
  });

  test('of set is undefined for a known version', () => {
    const store = new Store<Widget>();
    const object = stored('a', '1');
    store.set(object);
    expect(store.set(stored('a', '1'))).toBeUndefined();
    expect(store.get(keyOf(object))).toBe(object);
  });

  test('of delete has the last state that the server sent, and is undefined for an unknown object', () => {
    const store = new Store<Widget>();
    store.set(stored('a', '1'));
    const last = stored('a', '2');
    expect(store.delete(last)).toEqual({ type: 'deleted', object: last });
    expect(store.delete(last)).toBeUndefined();
    expect([store.size, store.get(keyOf(last))]).toEqual([0, undefined]);
  });

  test('of replace is added, modified or deleted, with the last known state of a deleted object', () => {
    const store = new Store<Widget>();
    const [same, old, gone] = [stored('same', '1'), stored('changed', '2'), stored('gone', '3')];
    for (const object of [same, old, gone]) store.set(object);
    const [changed, added] = [stored('changed', '4'), stored('new', '5')];
    expect(store.replace([stored('same', '1'), changed, added])).toEqual([
      { type: 'modified', object: changed, previous: old },
      { type: 'added', object: added },
      { type: 'deleted', object: gone },
    ]);
    expect([...store.list()].map(({ metadata }) => metadata.name).sort()).toEqual(['changed', 'new', 'same']);
  });

  test('of replace for a recreated object is a deletion followed by an addition', () => {
    const store = new Store<Widget>();
    const old = stored('a', '1', { uid: 'old' });
    store.set(old);
    const made = stored('a', '9', { uid: 'new' });
    expect(store.replace([made])).toEqual([
      { type: 'deleted', object: old },
      { type: 'added', object: made },
    ]);
    expect(store.get(keyOf(made))).toBe(made);
  });

  test('of an object does not affect the object of the same name in another namespace', () => {
    const store = new Store<Widget>();
    store.set(stored('a', '1'));
    expect(store.set(stored('a', '2', { namespace: 'other' }))?.type).toBe('added');
    expect(store.size).toBe(2);
  });
});

describe('an index', () => {
  const store = (): Store<Widget> => {
    const indexed = new Store<Widget>();
    indexed.addIndex('colour', byColour);
    return indexed;
  };
  const names = (objects: Iterable<Widget>): string[] => [...objects].map(({ metadata }) => metadata.name).sort();

  test('finds an object by each of its values', () => {
    const indexed = store();
    indexed.set(coloured('a', '1', 'red blue'));
    indexed.set(coloured('b', '2', 'red'));
    expect(names(indexed.byIndex('colour', 'red'))).toEqual(['a', 'b']);
    expect(names(indexed.byIndex('colour', 'blue'))).toEqual(['a']);
    expect(names(indexed.byIndex('colour', 'green'))).toEqual([]);
  });

  test('is updated by changes, deletions and replacements', () => {
    const indexed = store();
    indexed.set(coloured('a', '1', 'red'));
    indexed.set(coloured('a', '2', 'blue'));
    expect(names(indexed.byIndex('colour', 'red'))).toEqual([]);
    expect([...indexed.byIndex('colour', 'blue')]).toEqual([coloured('a', '2', 'blue')]);
    indexed.replace([coloured('b', '3', 'blue')]);
    expect(names(indexed.byIndex('colour', 'blue'))).toEqual(['b']);
    indexed.delete(coloured('b', '4', 'another'));
    expect(names(indexed.byIndex('colour', 'blue'))).toEqual([]);
  });

  test('added later finds the stored objects', () => {
    const late = new Store<Widget>();
    late.set(coloured('a', '1', 'red'));
    late.addIndex('colour', byColour);
    expect(names(late.byIndex('colour', 'red'))).toEqual(['a']);
    expect(names(late.byIndex('colour', 'blue'))).toEqual([]);
  });

  test('does not affect another index', () => {
    const indexed = store();
    indexed.set(coloured('a', '1', 'red'));
    indexed.addIndex('name', ({ metadata }) => [metadata.name]);
    indexed.set(coloured('a', '2', 'blue'));
    expect(names(indexed.byIndex('colour', 'red'))).toEqual([]);
    expect(names(indexed.byIndex('name', 'a'))).toEqual(['a']);
  });

  test('of an unknown or a taken name throws', () => {
    expect(() => store().byIndex('size', '1')).toThrow(
      new RangeError('there is no index "size"; the indexes are: colour'),
    );
    expect(() => store().addIndex('colour', byColour)).toThrow(/^index "colour" already exists: /);
  });
});

describe('after any sequence of changes', () => {
  const colours = ['red', 'blue', 'green'] as const;
  // Few names, uids and versions, so that sequences meet the same object again and again.
  const object = fc
    .record({
      name: fc.constantFrom('a', 'b', 'c', 'd'),
      namespace: fc.constantFrom('default', 'other'),
      uid: fc.constantFrom('1', '2'),
      colours: fc.subarray([...colours]),
    })
    .map(({ name, namespace, uid, colours: own }) =>
      stored(name, '?', { namespace, uid, labels: { colours: own.join(' ') } }),
    );
  const step = fc.oneof(
    fc.record({ type: fc.constant('set' as const), object }),
    fc.record({ type: fc.constant('delete' as const), object }),
    fc.record({
      type: fc.constant('replace' as const),
      objects: fc.uniqueArray(object, { maxLength: 6, selector: (candidate) => keyString(keyOf(candidate)) }),
    }),
  );

  test('the store, its indexes and the sum of the deltas equal a naive model', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const store = new Store<Widget>();
        store.addIndex('colour', byColour);
        const model = new Map<string, Widget>();
        const mirror = new Map<string, Widget>();
        let version = 0;
        const now = (candidate: Widget): Widget => ({
          ...candidate,
          metadata: { ...candidate.metadata, resourceVersion: String(++version) },
        });
        for (const current of steps) {
          if (current.type === 'replace') {
            const objects = current.objects.map(now);
            model.clear();
            for (const each of objects) model.set(keyString(keyOf(each)), each);
            for (const delta of store.replace(objects)) applyDelta(mirror, delta);
          } else {
            const changed = now(current.object);
            if (current.type === 'set') model.set(keyString(keyOf(changed)), changed);
            else model.delete(keyString(keyOf(changed)));
            applyDelta(mirror, store[current.type](changed));
          }
          expect(byKey(store.list())).toEqual(byKey(model.values()));
          expect(byKey(mirror.values())).toEqual(byKey(model.values()));
          expect(store.size).toBe(model.size);
          for (const colour of colours) {
            const expected = [...model.values()].filter((each) => byColour(each).includes(colour));
            expect(byKey(store.byIndex('colour', colour))).toEqual(byKey(expected));
          }
        }
      }),
    );
  });

  const byKey = (objects: Iterable<Widget>): (readonly [string, Widget])[] =>
    [...objects].map((each) => [keyString(keyOf(each)), each] as const).sort(([a], [b]) => (a < b ? -1 : 1));

  /** Applies the delta to `mirror`. Fails if it contradicts the state of `mirror`. */
  function applyDelta(mirror: Map<string, Widget>, delta: Delta<Widget> | undefined): void {
    if (delta === undefined) return;
    const key = keyString(keyOf(delta.object));
    const known = mirror.get(key);
    expect(known === undefined).toBe(delta.type === 'added');
    if (delta.type === 'modified') expect(delta.previous).toBe(known);
    if (delta.type === 'deleted') mirror.delete(key);
    else mirror.set(key, delta.object);
  }
});

test('finds the objects of a namespace and of an owner', () => {
  const store = new Store<Widget>();
  const owned = (name: string, resourceVersion: string, ...uids: readonly string[]): Widget => {
    const ownerReferences = uids.map((uid) => ({ apiVersion: 'v1', kind: 'Planet', name: uid, uid }));
    return stored(name, resourceVersion, { ownerReferences });
  };
  const names = (objects: Iterable<Widget>): string[] => [...objects].map(({ metadata }) => metadata.name);
  store.set(owned('a', '1', 'earth'));
  store.set(stored('b', '2', { namespace: 'other' }));
  expect([names(store.byNamespace('default')), names(store.byNamespace('none'))]).toEqual([['a'], []]);
  expect([names(store.byOwner('earth')), names(store.byOwner('mars'))]).toEqual([['a'], []]);
  store.set(owned('a', '3', 'mars', 'earth'));
  store.set(owned('c', '4', 'mars'));
  expect([names(store.byOwner('earth')), names(store.byOwner('mars'))]).toEqual([['a'], ['a', 'c']]);
  store.delete(owned('a', '5', 'mars', 'earth'));
  expect([names(store.byOwner('earth')), names(store.byOwner('mars'))]).toEqual([[], ['c']]);
});

test('a list of one namespace does not change the others', () => {
  const store = new Store<Widget>();
  const there = stored('a', '1', { namespace: 'other' });
  store.set(there);
  store.set(stored('b', '2'));
  expect(
    store.replace([], { namespace: 'default' }).map(({ type, object }) => `${type} ${object.metadata.name}`),
  ).toEqual(['deleted b']);
  expect([...store.list()]).toEqual([there]);
});

test('an object whose index function throws is missing in that index only', () => {
  const failures: string[] = [];
  const store = new Store<Widget>({
    indexFailed: (error, object, index) => failures.push(`${index} ${object.metadata.name} ${error}`),
  });
  let broken = true;
  store.addIndex('colour', (object) => {
    if (broken) throw new Error('a defect');
    return byColour(object);
  });
  store.addIndex('name', ({ metadata }) => [metadata.name]);
  expect(store.set(coloured('a', '1', 'red'))?.type).toBe('added');
  expect([...store.byIndex('colour', 'red')]).toEqual([]);
  expect([...store.byIndex('name', 'a')]).toEqual([coloured('a', '1', 'red')]);
  expect(failures).toEqual(['colour a Error: a defect']);
  broken = false;
  store.set(coloured('a', '2', 'blue'));
  expect([...store.byIndex('colour', 'blue')]).toEqual([coloured('a', '2', 'blue')]);
  // One that throws only when the object goes must not keep it.
  broken = true;
  store.delete(coloured('a', '3', 'blue'));
  expect([...store.byIndex('colour', 'blue')]).toEqual([]);
  expect([store.size, failures.length]).toEqual([0, 2]);
});

test('the result of an index is a snapshot', () => {
  const store = new Store<Widget>();
  store.addIndex('colour', byColour);
  for (const name of ['a', 'b']) store.set(coloured(name, '1', 'red'));
  const seen: string[] = [];
  for (const { metadata } of store.byIndex('colour', 'red')) {
    seen.push(metadata.name);
    if (seen.length < 10) store.set(coloured(metadata.name, `${seen.length + 1}`, 'red'));
  }
  expect(seen).toEqual(['a', 'b']);
});

describe('get of a key that does not fit the scope of the kind', () => {
  test('throws a TypeError, because no object can have it', () => {
    expect(() => new Store({ kind: Widget }).get({ name: 'a' })).toThrow(
      new TypeError('widgets.test.example a is namespaced: set metadata.namespace'),
    );
    expect(() => new Store({ kind: Planet }).get({ name: 'earth', namespace: 'default' })).toThrow(
      'planets.test.example earth is cluster-scoped',
    );
  });

  test('is not refused by a store that does not know its kind', () => {
    expect(new Store<Widget>().get({ name: 'a' })).toBeUndefined();
  });
});
