import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { compareResourceVersions } from '../../../../src/runtime/cache/index.ts';
import { ParkedKeys } from '../../../../src/runtime/controller/parked-keys.ts';

const upTo = (reached: number) => (version: string) => compareResourceVersions(String(reached), version) >= 0;

test('gives the keys whose version is reached, the oldest first, those of one version in the order they came', () => {
  const step = fc.oneof(
    fc.record({ add: fc.integer({ min: 1, max: 30 }) }),
    fc.record({ reach: fc.integer({ min: 1, max: 30 }) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const parked = new ParkedKeys();
      let model: { key: string; version: number }[] = [];
      for (const [index, current] of steps.entries()) {
        if ('add' in current) {
          parked.add(`key-${index}`, String(current.add));
          model.push({ key: `key-${index}`, version: current.add });
          continue;
        }
        const taken: string[] = [];
        for (;;) {
          const key = parked.take(upTo(current.reach));
          if (key === undefined) break;
          taken.push(key);
        }
        const due = model.filter(({ version }) => version <= current.reach).sort((a, b) => a.version - b.version);
        expect(taken).toEqual(due.map(({ key }) => key));
        model = model.filter(({ version }) => version > current.reach);
      }
    }),
  );
});

test('takes of 10,000 keys cost no more each than of 100', () => {
  // Counted, not timed: how often a version is looked at.
  const looks = (count: number): number => {
    const parked = new ParkedKeys();
    for (let index = 0; index < count; index += 1) parked.add(`key-${index}`, String(1_000_000 + index));
    let looked = 0;
    const reached = (): boolean => {
      looked += 1;
      return true;
    };
    for (let index = 0; index < count; index += 1) parked.take(reached);
    return looked / count;
  };
  expect(looks(10_000)).toBe(looks(100));
});
