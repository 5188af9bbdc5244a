import type { ReflectorOptions } from '@echoperator/runtime/cache';
import {
  type Fault,
  type FaultProxy,
  type FaultTarget,
  type InjectedFault,
  isList,
  isWatch,
  isWrite,
} from '@echoperator/testing';
import fc from 'fast-check';
import type { World } from './world.ts';

const filters = { lists: isList, watches: isWatch, writes: isWrite, all: () => true } as const;

/** A step: some Echos change, optionally with a new fault. */
export type Step =
  | { readonly type: 'change' }
  | {
      readonly type: 'fault';
      readonly fault: Fault;
      readonly on: keyof typeof filters;
      readonly every: number;
      readonly times: number;
    };

const answers = [
  { type: 'error-response', status: 409, reason: 'Conflict' },
  { type: 'error-response', status: 410, reason: 'Expired' },
  { type: 'error-response', status: 429, reason: 'TooManyRequests', retryAfterSeconds: 1 },
  { type: 'error-response', status: 500, reason: 'InternalError' },
  { type: 'error-response', status: 503, reason: 'ServiceUnavailable' },
] as const satisfies readonly Fault[];

const broken = [
  { type: 'cut', how: 'reset' },
  { type: 'cut', how: 'end' },
  { type: 'cut', how: 'end', afterBytes: 10_000 },
  { type: 'slow', bytesPerSecond: 20_000 },
  { type: 'silence' },
] as const satisfies readonly Fault[];

const fault = (on: keyof typeof filters, ...faults: readonly Fault[]): fc.Arbitrary<Step> =>
  fc.record({
    type: fc.constant('fault' as const),
    fault: fc.constantFrom(...faults),
    on: fc.constant(on),
    every: fc.integer({ min: 1, max: 3 }),
    times: fc.integer({ min: 1, max: 6 }),
  });

/** The duration of a watch. The default is too long for a test. */
export const watchTimeoutSeconds = 2;

/** The options of a run's informers, with either way of listing. */
export const watching: fc.Arbitrary<ReflectorOptions> = fc.record({
  listing: fc.constantFrom('streamed' as const, 'paged' as const),
  watchTimeoutSeconds: fc.constant(watchTimeoutSeconds),
});

/** The steps of one run. */
export const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.constant<Step>({ type: 'change' }) },
    { weight: 2, arbitrary: fault('watches', ...broken, { type: 'error-event', status: 410, reason: 'Expired' }) },
    { weight: 1, arbitrary: fault('watches', ...answers) },
    { weight: 1, arbitrary: fault('lists', ...broken, ...answers) },
    { weight: 2, arbitrary: fault('writes', { type: 'lost-response' }, ...answers) },
    { weight: 1, arbitrary: fault('all', ...answers) },
  ),
  { minLength: 3, maxLength: 8 },
);

/** Executes the steps one after the other, then ends all faults. @returns how often each type of fault happened */
export async function take(
  sequence: readonly Step[],
  { proxy, world }: { readonly proxy: FaultProxy; readonly world: World },
): Promise<ReadonlyMap<Fault['type'], number>> {
  const injected: InjectedFault[] = [];
  try {
    for (const step of sequence) {
      if (step.type === 'fault') {
        const target: FaultTarget = { on: filters[step.on], every: step.every, times: step.times };
        injected.push(proxy.inject(step.fault, target));
      }
      await world.change();
    }
  } finally {
    for (const one of injected) one.off();
  }
  const counts = new Map<Fault['type'], number>();
  for (const {
    fault: { type },
    count,
  } of injected)
    counts.set(type, (counts.get(type) ?? 0) + count);
  return counts;
}
