import { beforeEach, expect, test } from '@jest/globals';
import { Overwrites } from '../../../../src/runtime/controller/overwrites.ts';
import { stored, type Widget } from '../../../../testkit/widgets.ts';

const minuteMs = 60_000;

let overwrites: Overwrites;
let nowMs: number;
beforeEach(() => {
  overwrites = new Overwrites();
  nowMs = 1000 * minuteMs;
});

const withPhase = (phase: string, rest: object = {}): Widget => ({ ...stored('a', '1'), status: { phase }, ...rest });

/** The key writes `Ready`, and another client `phase`. */
function overwritten(phase = 'Other', key = 'default/a'): { readonly pauseMs: number; readonly isFirst: boolean } {
  overwrites.wrote('default/a', withPhase('Ready'), { metadata: { resourceVersion: '1' }, status: { phase: 'Ready' } });
  const delta = { type: 'modified', object: withPhase(phase), previous: withPhase('Ready') } as const;
  return overwrites.pause(key, delta, nowMs);
}

test('a few corrections are prompt, and the pauses of further ones double up to an hour', () => {
  const pauses = Array.from({ length: 20 }, () => overwritten());
  expect(pauses.slice(0, 6).map(({ pauseMs }) => pauseMs)).toEqual([0, 0, 0, 1000, 2000, 4000]);
  expect(pauses.at(-1)?.pauseMs).toBe(60 * minuteMs);
  expect(pauses.filter(({ isFirst }) => isFirst)).toEqual([pauses[3]]);
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
  const recreated = { ...withPhase('Other'), metadata: { ...stored('a', '1').metadata, uid: 'another' } };
  expect(overwrites.pause('default/a', { type: 'added', object: recreated }, nowMs).pauseMs).toBe(0);
  expect(overwritten('Other', 'default/b').pauseMs).toBe(0);
});

test('the objects that were written least recently are forgotten', () => {
  for (let times = 0; times < 10; times += 1) overwritten();
  for (let index = 0; index < 1000; index += 1) overwrites.wrote('default/b', stored(`b-${index}`, '1'), {});
  const delta = { type: 'modified', object: withPhase('Other'), previous: withPhase('Ready') } as const;
  expect(overwrites.pause('default/a', delta, nowMs).pauseMs).toBe(0);
});
