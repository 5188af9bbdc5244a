import { setTimeout as delay } from 'node:timers/promises';
import { Lease, type LeaseTimings } from '../../../../src/runtime/leader-election/index.ts';
import { eventually } from '../../../../src/runtime/testing/index.ts';
import { canFakeClock } from '../../../../testkit/fake-clock.ts';
import { ConfigMap } from '../../../../testkit/kinds.ts';
import type { Arena } from './arena.ts';
import type { Contest } from './contest.ts';
import type { Contestant } from './contestant.ts';
import { type FaultKind, faultKinds, stepsFrom, take } from './faults.ts';
import { namespace } from './history.ts';
import { monotonicMs } from './monotonic.ts';
import type { Verdict } from './verdict.ts';

/** What a run of elections is to have had before it ends. */
export interface RandomElectionsOptions {
  /** Repeats the faults of a run. */
  readonly seed: number;
  /** How often the locks pass on. */
  readonly elections: number;
  /** Whether a write is to have landed when its sender's time was over. */
  readonly lateWrite: boolean;
}

const locks = Array.from({ length: 8 }, (_, index) => `lock-${index}`);
const timings: LeaseTimings = { leaseDurationSeconds: 2, renewDeadlineSeconds: 1.2, retryPeriodSeconds: 0.3 };
/** Fewer than a process that leads much has on its way: when nothing is answered, some wait behind others. */
const connections = 8;
/** The seeds of the contestants' faults are so far apart that none has another's. */
const seedStride = 1_000_003;

const possibleFaults = faultKinds.filter((kind) => kind !== 'clock' || canFakeClock);

/** How long such a run may take: some times what it takes on two cores that have nothing else to do. */
export const timeLimitMs = ({ elections }: RandomElectionsOptions): number => 180_000 + elections * 3_000;

/**
 * Faults at random come over three candidates of ours and one on client-go, which contend for eight locks, until there were
 * enough elections and each kind of fault has happened. Then all is calm, and somebody must lead every lock.
 *
 * @returns the contest, which the caller ends, and a line about what happened
 */
export async function contendAtRandom(
  arena: Arena,
  contest: Contest,
  options: RandomElectionsOptions,
): Promise<string> {
  for (const name of locks) await arena.client.create(ConfigMap, { metadata: { namespace, name } });
  for (const name of ['ours-0', 'ours-1', 'ours-2', 'client-go']) {
    await contest.enter({ name, locks, timings, connections });
  }
  const { contestants } = contest;
  const happened = new Map<FaultKind, number>();
  const calm = new AbortController();
  const startedAt = monotonicMs();
  const torments = Promise.all(
    contestants.map((one, index) => torment(one, options.seed + index * seedStride, happened, calm.signal)),
  );
  try {
    // A contestant that ends of its own accord ends the test.
    await Promise.race([enough(arena, contest, happened, options), torments]);
  } finally {
    calm.abort();
    await torments;
  }
  const tookMs = monotonicMs() - startedAt;
  await everyLockIsLed(arena);
  for (const one of contestants) await one.stop();
  return summary(await contest.verdict(), happened, tookMs);
}

/** Faults come over a contestant, one after the other, until the signal is aborted. */
async function torment(
  contestant: Contestant,
  itsSeed: number,
  happened: Map<FaultKind, number>,
  signal: AbortSignal,
): Promise<void> {
  const kinds = possibleFaults.filter((kind) => kind !== 'clock' || contestant.clockFile !== undefined);
  for (const step of stepsFrom(itsSeed, kinds)) {
    await delay(step.calmMs, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    if (await take(step, contestant, signal)) happened.set(step.fault, (happened.get(step.fault) ?? 0) + 1);
  }
}

/** How often the locks have passed on, as far as the Leases tell. */
async function electionsSoFar(arena: Arena): Promise<number> {
  const { items } = await arena.client.list(Lease, { namespace });
  return items.reduce((sum, { spec }) => sum + (spec?.leaseTransitions ?? 0), 0);
}

/** Waits until there were enough elections, each kind of fault has happened, and a write has landed too late where that is wanted. */
async function enough(
  arena: Arena,
  contest: Contest,
  happened: ReadonlyMap<FaultKind, number>,
  options: RandomElectionsOptions,
): Promise<void> {
  const limitMs = timeLimitMs(options);
  let missing: readonly string[] = [];
  const look = async (): Promise<boolean> => {
    await delay(500);
    const held = await electionsSoFar(arena);
    missing = possibleFaults.filter((kind) => !happened.has(kind));
    if (held < options.elections)
      missing = [`${options.elections - held} of ${options.elections} elections`, ...missing];
    if (missing.length > 0) return false;
    if (options.lateWrite && (await contest.verdict()).late.refused === 0) missing = ['a write that lands late'];
    return missing.length === 0;
  };
  await eventually('enough elections', look, limitMs).catch((cause: unknown) => {
    throw new Error(`within ${limitMs / 1000} s there was not enough: ${missing.join(', ')}`, { cause });
  });
}

/** Waits until somebody holds each lock and goes on renewing it. */
async function everyLockIsLed(arena: Arena): Promise<void> {
  const look = async () => {
    const { items } = await arena.client.list(Lease, { namespace });
    return new Map(items.map(({ metadata, spec }) => [metadata.name, spec]));
  };
  await eventually(
    'somebody leads every lock',
    async () => {
      const before = await look();
      await delay(2 * timings.renewDeadlineSeconds * 1000);
      const after = await look();
      return locks.every((lock) => {
        const [then, now] = [before.get(lock), after.get(lock)];
        return now?.holderIdentity && then?.holderIdentity === now.holderIdentity && then.renewTime !== now.renewTime;
      });
    },
    60_000,
  );
}

function summary(verdict: Verdict, happened: ReadonlyMap<FaultKind, number>, tookMs: number): string {
  const { elections, begun, late, frozenOnTheWayOut } = verdict;
  return [
    `${elections} elections in ${Math.round(tookMs / 1000)} s; leaders began ${begun} requests, of which ${frozenOnTheWayOut} were frozen on the way out`,
    `of their writes landed late: ${late.refused} that were refused, ${late.beforeTheNextWrite} before the next leader's first`,
    `faults: ${[...happened].map(([kind, count]) => `${kind} ${count}`).join(', ')}`,
  ].join('\n');
}
