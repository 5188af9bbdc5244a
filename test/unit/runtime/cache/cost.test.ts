import { expect, test } from '@jest/globals';
import { Store } from '../../../../packages/runtime/src/cache/store.ts';
import { stored, type Widget } from '../../../../testkit/widgets.ts';

const work: Readonly<Record<string, (store: Store<Widget>) => unknown>> = {
  found: (store) => store.get({ namespace: 'default', name: 'widget-500' }),
  'found by an index': (store) => [...store.byIndex('own', 'widget-500')],
  added: (store) => store.set(stored('another', '2')),
  modified: (store) => store.set(stored('widget-500', '2')),
  deleted: (store) => store.delete(stored('widget-600', '2')),
};

/** How often a store with so many objects looks into one, for each piece of work. */
function looksAmong(size: number): Readonly<Record<string, number>> {
  let looks = 0;
  const counting = (object: Widget): Widget =>
    new Proxy(object, {
      get: (target, member) => {
        looks++;
        return Reflect.get(target, member);
      },
    });
  const store = new Store<Widget>();
  store.addIndex('all', () => ['one value']);
  store.addIndex('own', ({ metadata }) => [metadata.name]);
  for (let index = 0; index < size; index++) store.set(counting(stored(`widget-${index}`, '1')));
  const counted = Object.entries(work).map(([name, doIt]) => {
    looks = 0;
    doIt(store);
    return [name, looks];
  });
  return Object.fromEntries(counted);
}

// Counted and not timed: a machine that is busy changes nothing.
test('the cost of an event does not depend on the size of the store', () => {
  const few = looksAmong(1000);
  expect(looksAmong(50_000)).toEqual(few);
  expect(Math.max(...Object.values(few))).toBeLessThan(20);
  expect(few.modified).toBeGreaterThan(0);
});
