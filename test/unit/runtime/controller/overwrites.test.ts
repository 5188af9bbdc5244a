import { beforeEach, expect, test } from '@jest/globals';
import { Overwrites } from '../../../../packages/runtime/src/controller/overwrites.ts';
import { stored, type Widget } from '../../../../testkit/widgets.ts';

const minuteMs = 60_000;

let overwrites: Overwrites;
let nowMs: number;
beforeEach(() => {
  overwrites = new Overwrites();
  nowMs = 1000 * minuteMs;
});

const withPhase = (phase: string, rest: object = {}): Widget => ({ ...stored('a', '1'), status: { phase }, ...rest });

const change = (object: Widget, previous: Widget) => ({ type: 'modified', object, previous }) as const;

/** The key writes `Ready`. */
function write(key = 'default/a', phase = 'Ready', before = 'Other'): void {
  const body = { metadata: { resourceVersion: '1' }, status: { phase } };
  overwrites.wrote(key, change(withPhase(phase), withPhase(before)), body);
}

/** The key writes `Ready`, and another client `phase`. */
function overwritten(phase = 'Other', key = 'default/a'): { readonly pauseMs: number; readonly isFirst: boolean } {
  write();
  return overwrites.pause(key, change(withPhase(phase), withPhase('Ready')), nowMs);
}

test('a few corrections are prompt, and the pauses of further ones double up to an hour', () => {
  const pauses = Array.from({ length: 20 }, () => overwritten());
  expect(pauses.slice(0, 6).map(({ pauseMs }) => pauseMs)).toEqual([0, 0, 0, 1000, 2000, 4000]);
  expect(pauses.at(-1)?.pauseMs).toBe(60 * minuteMs);
  expect(pauses.filter(({ isFirst }) => isFirst)).toEqual([pauses[3]]);
});

test('several changes that one write corrects count once', () => {
  write();
  const pauses = Array.from({ length: 15 }, (_, at) =>
    overwrites.pause('default/a', change(withPhase(`${at + 1}`), withPhase(`${at}`)), nowMs),
  );
  expect(pauses.every(({ pauseMs }) => pauseMs === 0)).toBe(true);
  expect(overwritten().pauseMs).toBe(0);
});

test('two keys that overwrite each other pause, too', () => {
  const pauses = Array.from({ length: 5 }, () => {
    write('default/a', 'A', 'B');
    const ofB = overwrites.pause('default/b', change(withPhase('A'), withPhase('B')), nowMs).pauseMs;
    write('default/b', 'B', 'A');
    return [ofB, overwrites.pause('default/a', change(withPhase('B'), withPhase('A')), nowMs).pauseMs];
  });
  expect(pauses).toEqual([
    [0, 0],
    [0, 0],
    [0, 0],
    [0, 1000],
    [1000, 2000],
  ]);
});

test('a change of what a write has sent without changing it does not wait: an update sends the whole object', () => {
  for (let size = 1; size <= 10; size += 1) {
    const object = withPhase('Ready', { spec: { size } });
    overwrites.wrote('default/a', change(object, withPhase('Other', { spec: { size } })), object);
    const edited = withPhase('Ready', { spec: { size: size + 1 } });
    expect(overwrites.pause('default/a', change(edited, object), nowMs).pauseMs).toBe(0);
  }
});

test('an item that another client adds to a list, or changes, is not ours', () => {
  const withItems = (...conditions: readonly object[]) => withPhase('Ready', { status: { conditions } });
  const body = { status: { conditions: [{ type: 'Mine', status: 'True' }] } };
  const theirs = (status: number) => withItems({ status: 'True', type: 'Mine' }, { type: 'Theirs', status });
  for (let times = 0; times < 10; times += 1) {
    overwrites.wrote('default/a', change(theirs(times), withItems()), body);
    expect(overwrites.pause('default/a', change(theirs(times + 1), theirs(times)), nowMs).pauseMs).toBe(0);
  }
  const undone = withItems({ status: 'False', type: 'Mine' }, { type: 'Theirs', status: 1 });
  const pauses = Array.from({ length: 4 }, () => {
    overwrites.wrote('default/a', change(theirs(1), undone), body);
    return overwrites.pause('default/a', change(undone, theirs(1)), nowMs).pauseMs;
  });
  expect(pauses).toEqual([0, 0, 0, 1000]);
});

test('an item that was sent with an undefined member is ours', () => {
  const withItem = (status: string) => withPhase('Ready', { status: { conditions: [{ type: 'Ready', status }] } });
  const body = { status: { conditions: [{ type: 'Ready', status: 'Mine', reason: undefined }] } };
  const pauses = Array.from({ length: 4 }, () => {
    overwrites.wrote('default/a', change(withItem('Mine'), withItem('Theirs')), body);
    return overwrites.pause('default/a', change(withItem('Theirs'), withItem('Mine')), nowMs).pauseMs;
  });
  expect(pauses).toEqual([0, 0, 0, 1000]);
});

test('what another client writes to a list that it has just overwritten waits as long', () => {
  const withItem = (status: string) => withPhase('Ready', { status: { conditions: [{ type: 'Ready', status }] } });
  const body = { status: { conditions: [{ type: 'Ready', status: 'Mine' }] } };
  const pauses = Array.from({ length: 4 }, () => {
    overwrites.wrote('default/a', change(withItem('Mine'), withItem('Done')), body);
    const steps = ['Mine', 'Begun', 'Done'].map(withItem);
    return steps
      .slice(1)
      .map((step, at) => overwrites.pause('default/a', change(step, steps[at] ?? step), nowMs).pauseMs);
  });
  expect(pauses).toEqual([
    [0, 0],
    [0, 0],
    [0, 0],
    [1000, 1000],
  ]);
});

test('a correction is prompt again when nobody has overwritten the object for ten minutes after the last pause', () => {
  for (let times = 0; times < 5; times += 1) overwritten();
  nowMs += 10 * minuteMs;
  expect(overwritten().pauseMs).toBe(4000);
  nowMs += 4000 + 10 * minuteMs + 1;
  expect(overwritten().pauseMs).toBe(0);
});

test('a change of another field, to the value that was sent, of a new object or for another key does not wait', () => {
  for (let times = 0; times < 10; times += 1) overwritten();
  const other = {
    type: 'modified',
    object: withPhase('Ready', { spec: { size: 2 } }),
    previous: withPhase('Ready'),
  } as const;
  expect(overwrites.pause('default/a', other, nowMs).pauseMs).toBe(0);
  const restored = { type: 'modified', object: withPhase('Ready'), previous: withPhase('Other') } as const;
  expect(overwrites.pause('default/a', restored, nowMs).pauseMs).toBe(0);
  const ofAnother = (phase: string) => ({ ...stored('a', '1', { uid: 'another' }), status: { phase } });
  expect(overwrites.pause('default/a', change(ofAnother('Other'), ofAnother('Ready')), nowMs).pauseMs).toBe(0);
  expect(overwritten('Other', 'default/b').pauseMs).toBe(0);
});

test('the objects that were written least recently are forgotten', () => {
  for (let times = 0; times < 10; times += 1) overwritten();
  for (let index = 0; index < 1000; index += 1) {
    const object = stored(`b-${index}`, '1');
    overwrites.wrote('default/b', change(object, object), {});
  }
  const delta = { type: 'modified', object: withPhase('Other'), previous: withPhase('Ready') } as const;
  expect(overwrites.pause('default/a', delta, nowMs).pauseMs).toBe(0);
});
