import type { Kind } from '@echoperator/runtime';
import { StatefulSet } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, expect, test } from '@jest/globals';

import { kinds } from '../../src/operator.ts';
import { formerlyFatal, HostileTrial } from './environment/hostile-trial.ts';
import { sampleNumber } from './environment/perturbation-sample.ts';

let trial: HostileTrial;

beforeAll(async () => {
  trial = await HostileTrial.start();
});

afterAll(async () => {
  await trial?.[Symbol.asyncDispose]();
});

/** Alone the longer test takes two minutes, and beside other suites on two cores up to twice as long. */
const timeoutMs = 480_000;

/**
 * How many objects of a kind, besides those that once stopped the operator. `nightly-hostile-objects` tries more, and
 * those of the other kinds that the operator caches.
 */
const perKind = 1;

test(
  `no object stops the operator: ${perKind} of each of our kinds, sample ${sampleNumber()}`,
  async () => {
    const tried = [...kinds, StatefulSet];
    const perKindOf = (kind: Kind) => (kind === StatefulSet ? 0 : perKind);
    const failures = await trial.run({ known: formerlyFatal, perKind: perKindOf, seed: sampleNumber(), tried });
    expect(failures).toEqual([]);
    expect(trial.kindsTried).toEqual(tried.map(({ kind }) => kind));
  },
  timeoutMs,
);

test(`nor does one at the bounds: ${perKind} of each of our kinds`, async () => {
  await trial.installBounds();
  expect(await trial.run({ known: [], perKind: () => perKind, seed: sampleNumber(), tried: kinds })).toEqual([]);
});
