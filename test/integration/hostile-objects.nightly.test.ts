import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { isCustomKind } from '../../packages/runtime/src/kind/define-kind.ts';
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

/** A pod's spec has over a thousand properties, which six kinds repeat. */
const perBuiltInKind = 40;

test(
  `no object stops the operator: all of our kinds, ${perBuiltInKind} of each other kind, sample ${sampleNumber()}`,
  async () => {
    const failures = await trial.run({
      known: formerlyFatal,
      perKind: (kind) => (isCustomKind(kind) ? Number.POSITIVE_INFINITY : perBuiltInKind),
      seed: sampleNumber(),
    });
    console.table(Object.fromEntries(trial.figures));
    expect(failures).toEqual([]);
  },
  40 * 60_000,
);

test(
  'nor does one at the bounds: all of our kinds',
  async () => {
    await trial.installBounds();
    const perKind = () => Number.POSITIVE_INFINITY;
    expect(await trial.run({ known: [], perKind, seed: sampleNumber(), tried: kinds })).toEqual([]);
  },
  40 * 60_000,
);
