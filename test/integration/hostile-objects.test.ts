import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { kinds } from '../../src/api/index.ts';
import { formerlyFatal, HostileTrial } from './environment/hostile-trial.ts';
import { sampleNumber } from './environment/perturbation-sample.ts';

let folder: string;
let trial: HostileTrial;

beforeAll(async () => {
  folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'hostile-'));
  trial = await HostileTrial.start(folder);
});

afterAll(async () => {
  await trial?.[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

/** How many objects of a kind, besides those that once stopped the operator. `nightly-hostile-objects` tries more. */
const perKind = 1;

test(`no object stops the operator: ${perKind} of each kind, sample ${sampleNumber()}`, async () => {
  const failures = await trial.run({ known: formerlyFatal, perKind: () => perKind, seed: sampleNumber() });
  expect(failures).toEqual([]);
  expect(trial.kindsTried).toEqual(expect.arrayContaining(kinds.map(({ kind }) => kind)));
});

test(`nor does one at the bounds: ${perKind} of each of our kinds`, async () => {
  await trial.installBounds();
  expect(await trial.run({ known: [], perKind: () => perKind, seed: sampleNumber(), tried: kinds })).toEqual([]);
});
