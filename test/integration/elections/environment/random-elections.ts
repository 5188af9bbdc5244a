import { setTimeout as delay } from 'node:timers/promises';
import { ConfigMap, Lease } from '@echoperator/runtime/kinds';
import type { LeaseTimings } from '@echoperator/runtime/leader-election';
import { eventually } from '../../../../testkit/eventually.ts';
import { canFakeClock } from '../../../../testkit/fake-clock.ts';
import type { Arena } from './arena.ts';
import { applyFault, type FaultKind, faultKinds, stepsFrom } from './candidate-faults.ts';
import type { Contest } from './contest.ts';
import type { Contestant } from './contestant.ts';
import { namespace } from './history.ts';
import { monotonicMs } from './monotonic.ts';
import type { Verdict } from './verdict.ts';

/** The seed of a run, and what must happen before it ends. */
export interface RandomElectionsOptions {
  /** Repeats the faults of a run. */
  readonly seed: number;
  /** How often a lock changes its holder. */
  readonly elections: number;
  /** Whether the API server must receive a write after its sender has lost the lock. */
  readonly lateWrite: boolean;
}

const locks = Array.from({ length: 8 }, (_, index) => `lock-${index}`);
const timings: LeaseTimings = { leaseDurationSeconds: 2, renewDeadlineSeconds: 1.2, retryPeriodSeconds: 0.3 };
/** Fewer than the writes of a process that leads many locks, so that without responses some writes are queued. */
const connections = 8;
/** The distance between the seeds of two contestants, so that their faults differ. */
const seedStride = 1_000_003;

const possibleFaults = faultKinds.filter((kind) => kind !== 'clock' || canFakeClock);

/** The time limit of a run: several times what it takes on two idle cores. */
export const timeLimitMs = ({ elections }: RandomElectionsOptions): number => 180_000 + elections * 3_000;

/**
 * Applies random faults to three candidates of ours and one on client-go, which contend for eight locks, until there
 * were enough elections and each kind of fault has happened. Then it stops the faults, and waits until each lock has a
 * leader.
 *
 * @returns a summary of the run
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
  const injecting = Promise.all(
    contestants.map((one, index) => injectFaults(one, options.seed + index * seedStride, happened, calm.signal)),
  );
  try {
    // Rejects if a contestant ends unexpectedly.
    await Promise.race([waitForEnough(arena, contest, happened, options), injecting]);
  } finally {
    calm.abort();
    await injecting;
  }
  const tookMs = monotonicMs() - startedAt;
  await waitForLeaders(arena);
  for (const one of contestants) await one.stop();
  return summary(await contest.verdict(), happened, tookMs);
}

/** Applies faults to a contestant, one after the other, until the signal is aborted. */
async function injectFaults(
  contestant: Contestant,
  seed: number,
  happened: Map<FaultKind, number>,
  signal: AbortSignal,
): Promise<void> {
  const kinds = possibleFaults.filter((kind) => kind !== 'clock' || contestant.clockFile !== undefined);
  for (const step of stepsFrom(seed, kinds)) {
    await delay(step.calmMs, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    if (await applyFault(step, contestant, signal)) happened.set(step.fault, (happened.get(step.fault) ?? 0) + 1);
  }
}

/** How often the locks have changed their holders, by the Leases. */
async function countElections(arena: Arena): Promise<number> {
  const { items } = await arena.client.list(Lease, { namespace });
  return items.reduce((sum, { spec }) => sum + (spec?.leaseTransitions ?? 0), 0);
}

/** Waits until there were enough elections, each kind of fault has happened and, if required, a write was late. */
async function waitForEnough(
  arena: Arena,
  contest: Contest,
  happened: ReadonlyMap<FaultKind, number>,
  options: RandomElectionsOptions,
): Promise<void> {
  const limitMs = timeLimitMs(options);
  let missing: readonly string[] = [];
  const isEnough = async (): Promise<boolean> => {
    await delay(500);
    const elections = await countElections(arena);
    missing = possibleFaults.filter((kind) => !happened.has(kind));
    if (elections < options.elections)
      missing = [`${options.elections - elections} of ${options.elections} elections`, ...missing];
    if (missing.length > 0) return false;
    if (options.lateWrite && (await contest.verdict()).late.refused === 0) missing = ['a late write'];
    return missing.length === 0;
  };
  await eventually('enough elections', isEnough, limitMs).catch((cause: unknown) => {
    throw new Error(`missing after ${limitMs / 1000} s: ${missing.join(', ')}`, { cause });
  });
}

/** Waits until each lock has a holder that keeps renewing it. */
async function waitForLeaders(arena: Arena): Promise<void> {
  const readLeases = async () => {
    const { items } = await arena.client.list(Lease, { namespace });
    return new Map(items.map(({ metadata, spec }) => [metadata.name, spec]));
  };
  await eventually(
    'each lock has a leader',
    async () => {
      const before = await readLeases();
      await delay(2 * timings.renewDeadlineSeconds * 1000);
      const after = await readLeases();
      return locks.every((lock) => {
        const [then, now] = [before.get(lock), after.get(lock)];
        return now?.holderIdentity && then?.holderIdentity === now.holderIdentity && then.renewTime !== now.renewTime;
      });
    },
    180_000,
  );
}

function summary(verdict: Verdict, happened: ReadonlyMap<FaultKind, number>, tookMs: number): string {
  const { elections, begun, late, frozenBehindFence } = verdict;
  return [
    `${elections} elections in ${Math.round(tookMs / 1000)} s; leaders began ${begun} requests, of which ${frozenBehindFence} were frozen behind the fence`,
    `late writes: ${late.refused} refused, ${late.beforeTheNextWrite} before the next leader's first write`,
    `faults: ${[...happened].map(([kind, count]) => `${kind} ${count}`).join(', ')}`,
  ].join('\n');
}
