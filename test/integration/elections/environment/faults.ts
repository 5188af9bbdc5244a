import { rename, writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import { type FaultProxy, isWrite } from '../../../../src/runtime/testing/index.ts';
import type { Link } from './link.ts';
import { monotonicMs } from './monotonic.ts';

/** Something that happens to one candidate for a time, and how long it is left alone afterwards. */
export interface Step {
  readonly fault: FaultKind;
  readonly durationMs: number;
  readonly calmMs: number;
  /** By how much a slow link delays what passes. */
  readonly delayMs: number;
  /** How many answers are lost. */
  readonly lostReplies: number;
  /** What becomes of the wall clock, in libfaketime's words. */
  readonly clock: string;
}

/** How long each may take: the long ones longer than a Lease lasts, so that another candidate leads by the end of them. */
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

/** A round has each kind of fault once. */
const round = (kinds: readonly FaultKind[]): fc.Arbitrary<readonly Step[]> =>
  fc
    .shuffledSubarray([...kinds], { minLength: kinds.length })
    .chain((order) => fc.tuple(...order.map(step)) as fc.Arbitrary<readonly Step[]>);

/** What happens to one candidate, without end: the same for the same seed. */
export function* stepsFrom(seed: number, kinds: readonly FaultKind[]): Generator<Step> {
  for (let offset = 0; ; offset += 1) {
    const [steps = []] = fc.sample(round(kinds), { seed: seed + offset, numRuns: 1 });
    yield* steps;
  }
}

/** What faults can be done to. */
export interface Victim {
  readonly link: Link;
  readonly proxy: FaultProxy;
  /** For libfaketime; absent: its clock can't be changed. */
  readonly clockFile: string | undefined;
  /** Whether the wall clock has moved since then, in the process that runs now. */
  clockHasMoved(sinceMs: number): Promise<boolean>;
  freeze(): void;
  /** Whether it had stopped. */
  thaw(): Promise<boolean>;
  kill(): Promise<void>;
  stop(): Promise<void>;
  start(): Promise<void>;
  /** The locks that it holds, as anybody can see. @throws Error if it has ended of its own accord. */
  held(): Promise<readonly string[]>;
}

/** Has a fault happen, and ends it, earlier when the signal is aborted. Returns whether it has really happened. */
export async function take(step: Step, victim: Victim, signal: AbortSignal): Promise<boolean> {
  const { link, proxy } = victim;
  const wait = () => delay(step.durationMs, undefined, { signal }).catch(() => {});
  switch (step.fault) {
    case 'pause':
    case 'long pause': {
      victim.freeze();
      const hasPassed = await passesOn(step, victim, wait);
      return (await victim.thaw()) && hasPassed;
    }
    case 'kill':
      await victim.kill();
      await wait();
      await victim.start();
      return true;
    case 'stop':
      await victim.stop();
      await wait();
      await victim.start();
      return true;
    case 'partition':
    case 'long partition': {
      const before = link.heldUp;
      link.cut();
      const hasPassed = await passesOn(step, victim, wait);
      link.mend();
      return link.heldUp > before && hasPassed;
    }
    case 'slow network': {
      const before = link.heldUp;
      link.slow(step.delayMs);
      await wait();
      link.mend();
      return link.heldUp > before;
    }
    case 'lost replies': {
      const lost = proxy.inject({ type: 'lost-reply' }, { on: isWrite, times: step.lostReplies });
      await wait();
      lost.off();
      return lost.count > 0;
    }
    case 'clock': {
      const since = monotonicMs();
      await setClock(victim, step.clock);
      await wait();
      const hasMoved = await victim.clockHasMoved(since);
      await setClock(victim, '+0');
      return hasMoved;
    }
  }
}

/** Whether, by the end of a long fault, another has taken what the victim held. For short ones there is nothing to see. */
async function passesOn({ fault }: Step, victim: Victim, wait: () => Promise<void>): Promise<boolean> {
  if (fault !== 'long pause' && fault !== 'long partition') {
    await wait();
    return true;
  }
  const before = await victim.held();
  await wait();
  const after = await victim.held();
  return before.some((lock) => !after.includes(lock));
}

/** The file is whole whenever it is read. */
async function setClock({ clockFile }: Victim, clock: string): Promise<void> {
  if (clockFile === undefined) throw new Error('no clock of this candidate can be changed');
  await writeFile(`${clockFile}.new`, clock);
  await rename(`${clockFile}.new`, clockFile);
}
