import { rename, writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { type FaultProxy, isWrite } from '@echoperator/testing';
import fc from 'fast-check';
import type { Link } from './link.ts';
import { monotonicMs } from './monotonic.ts';

/** A fault of one candidate, and the pause before the next one. */
export interface Step {
  readonly fault: FaultKind;
  readonly durationMs: number;
  readonly calmMs: number;
  /** The delay of a slow link. */
  readonly delayMs: number;
  /** The number of lost responses. */
  readonly lostReplies: number;
  /** The change of the wall clock, in libfaketime's syntax. */
  readonly clock: string;
}

/** The duration of each kind. Long faults outlast a Lease, so that another candidate leads by their end. */
const durations = {
  pause: { min: 50, max: 1_500 },
  'long pause': { min: 2_500, max: 6_000 },
  kill: { min: 0, max: 1_000 },
  stop: { min: 0, max: 500 },
  partition: { min: 50, max: 1_500 },
  'long partition': { min: 2_500, max: 6_000 },
  'lost replies': { min: 300, max: 1_500 },
  'slow network': { min: 500, max: 3_000 },
  clock: { min: 500, max: 3_000 },
} as const;

/** How long a long fault waits until its target holds a lock, because it shows nothing about a standby. */
const maxAimMs = 5_000;

export type FaultKind = keyof typeof durations;

export const faultKinds = Object.keys(durations) as FaultKind[];

const clocks = ['+5', '-5', '+3600', '-3600', '+0 x1.5', '+0 x3', '+0 x0.6'] as const;

const step = (fault: FaultKind): fc.Arbitrary<Step> =>
  fc.record({
    fault: fc.constant(fault),
    durationMs: fc.integer(durations[fault]),
    calmMs: fc.integer({ min: 500, max: 4_000 }),
    delayMs: fc.integer({ min: 20, max: 1_000 }),
    lostReplies: fc.integer({ min: 1, max: 8 }),
    clock: fc.constantFrom(...clocks),
  });

/** A round contains each kind of fault once. */
const round = (kinds: readonly FaultKind[]): fc.Arbitrary<readonly Step[]> =>
  fc
    .shuffledSubarray([...kinds], { minLength: kinds.length })
    .chain((order) => fc.tuple(...order.map(step)) as fc.Arbitrary<readonly Step[]>);

/** An endless sequence of faults, which the seed determines. */
export function* stepsFrom(seed: number, kinds: readonly FaultKind[]): Generator<Step> {
  for (let offset = 0; ; offset += 1) {
    const [steps = []] = fc.sample(round(kinds), { seed: seed + offset, numRuns: 1 });
    yield* steps;
  }
}

/** A candidate that faults can be applied to. */
export interface FaultTarget {
  readonly link: Link;
  readonly proxy: FaultProxy;
  /** The file that libfaketime reads. Absent: its clock cannot be changed. */
  readonly clockFile: string | undefined;
  /** Whether the wall clock of the current process has changed since then. */
  clockHasMoved(sinceMs: number): Promise<boolean>;
  freeze(): void;
  /** Returns whether the process had really stopped. */
  thaw(): Promise<boolean>;
  kill(): Promise<void>;
  stop(): Promise<void>;
  start(): Promise<void>;
  /** The locks that it holds, by the Leases. @throws Error if its process has ended unexpectedly. */
  held(): Promise<readonly string[]>;
}

/** Applies a fault and ends it, early if the signal is aborted. Returns whether the fault had an effect. */
export async function applyFault(step: Step, target: FaultTarget, signal: AbortSignal): Promise<boolean> {
  const { link, proxy } = target;
  const wait = () => delay(step.durationMs, undefined, { signal }).catch(() => {});
  if (isLong(step)) await waitUntilItLeads(target, signal);
  switch (step.fault) {
    case 'pause':
    case 'long pause': {
      target.freeze();
      const hasLostLock = await losesLock(step, target, wait);
      return (await target.thaw()) && hasLostLock;
    }
    case 'kill':
      await target.kill();
      await wait();
      await target.start();
      return true;
    case 'stop':
      await target.stop();
      await wait();
      await target.start();
      return true;
    case 'partition':
    case 'long partition': {
      const before = link.delayedCount;
      link.cut();
      const hasLostLock = await losesLock(step, target, wait);
      link.mend();
      return link.delayedCount > before && hasLostLock;
    }
    case 'slow network': {
      const before = link.delayedCount;
      link.slow(step.delayMs);
      await wait();
      link.mend();
      return link.delayedCount > before;
    }
    case 'lost replies': {
      const lost = proxy.inject({ type: 'lost-response' }, { on: isWrite, times: step.lostReplies });
      await wait();
      lost.off();
      return lost.count > 0;
    }
    case 'clock': {
      const since = monotonicMs();
      await setClock(target, step.clock);
      await wait();
      const hasMoved = await target.clockHasMoved(since);
      await setClock(target, '+0');
      return hasMoved;
    }
  }
}

const isLong = ({ fault }: Step): boolean => fault === 'long pause' || fault === 'long partition';

/** Returns without an error after {@link maxAimMs}. */
async function waitUntilItLeads(target: FaultTarget, signal: AbortSignal): Promise<void> {
  const untilMs = monotonicMs() + maxAimMs;
  while (!signal.aborted && monotonicMs() < untilMs && (await target.held()).length === 0) {
    await delay(250, undefined, { signal }).catch(() => {});
  }
}

/**
 * Waits, and returns whether the target lost a lock during a long fault. True for short faults, which need not cost a
 * lock.
 */
async function losesLock(step: Step, target: FaultTarget, wait: () => Promise<void>): Promise<boolean> {
  if (!isLong(step)) {
    await wait();
    return true;
  }
  const before = await target.held();
  await wait();
  const after = await target.held();
  return before.some((lock) => !after.includes(lock));
}

/** Replaces the file atomically. */
async function setClock({ clockFile }: FaultTarget, clock: string): Promise<void> {
  if (clockFile === undefined) throw new Error('the clock of this candidate cannot be changed');
  await writeFile(`${clockFile}.new`, clock);
  await rename(`${clockFile}.new`, clockFile);
}
