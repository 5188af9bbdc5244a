import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Lease, type LeaseTimings } from '../../../src/runtime/index.ts';
import { eventually } from '../../../src/runtime/testing/index.ts';
import { canFakeClock, fakeClock, removeClocksOfTheDead } from '../../../testkit/fake-clock.ts';
import { ConfigMap } from '../faults/environment/mirror.ts';
import { Arena } from './environment/arena.ts';
import type { CandidateSettings } from './environment/candidate.ts';
import { clientGo, ours } from './environment/candidate-process.ts';
import { Contestant } from './environment/contestant.ts';
import { type FaultKind, faultKinds, stepsFrom, take } from './environment/faults.ts';
import { accountOf, namespace } from './environment/history.ts';
import { monotonicMs } from './environment/monotonic.ts';
import { judge, type Verdict } from './environment/verdict.ts';

/** `ELECTIONS_SEED` repeats the faults of a run; `ELECTIONS` is how often the locks have to pass on before it ends. */
const { ELECTIONS_SEED, ELECTIONS } = process.env;
const seed = ELECTIONS_SEED === undefined ? Math.floor(Math.random() * 2 ** 30) : Number(ELECTIONS_SEED);
const wanted = ELECTIONS === undefined ? 50 : Number(ELECTIONS);
/** Some times what it takes on two cores that have nothing else to do. */
const timeLimitMs = 180_000 + wanted * 3_000;

const locks = Array.from({ length: 8 }, (_, index) => `lock-${index}`);
const timings: LeaseTimings = { leaseDurationSeconds: 2, renewDeadlineSeconds: 1.2, retryPeriodSeconds: 0.3 };
const writeEveryMs = 100;
/** Fewer than a process that leads much has on its way: when nothing is answered, some wait behind others. */
const connections = 8;
/** Of an accusation is told what was so long before it and after. */
const evidenceMs = 4_000;
/** The seeds of the contestants' faults are so far apart that none has another's. */
const seedStride = 1_000_003;

const possibleFaults = faultKinds.filter((kind) => kind !== 'clock' || canFakeClock);

let arena: Arena;

beforeAll(async () => {
  arena = await Arena.open();
  for (const name of locks) await arena.client.create(ConfigMap, { metadata: { namespace, name } });
}, 300_000);

afterAll(async () => {
  await arena[Symbol.asyncDispose]();
  await removeClocksOfTheDead();
});

/** Enters one of ours, or one on client-go, which only elects. Go's programs ask no C library what time it is. */
async function enter(
  name: string,
  locks: readonly string[],
  timings: LeaseTimings,
  connections: number,
): Promise<Contestant> {
  const settings = (server: string, journal: string): CandidateSettings => {
    return { server, name, journal, locks, timings, writeEveryMs, connections };
  };
  if (name.startsWith('client-go')) {
    return Contestant.enter({
      name,
      arena,
      // One that was frozen until another led would release what that other holds: before it does, client-go reads the
      // Lease, but goes by whom it remembers as the holder (tryRelease).
      command: (server, journal) => clientGo(arena.programs, settings(server, journal), { release: false }),
    });
  }
  const clockFile = canFakeClock ? join(arena.folder, `${name}.clock`) : undefined;
  const clock = clockFile === undefined ? {} : await fakeClock(clockFile);
  return Contestant.enter({
    name,
    arena,
    command: (server, journal) => ours(arena.programs, settings(server, journal), clock),
    ...(clockFile !== undefined && { clockFile }),
  });
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
async function elections(): Promise<number> {
  const { items } = await arena.client.list(Lease, { namespace });
  return items.reduce((sum, { spec }) => sum + (spec?.leaseTransitions ?? 0), 0);
}

/** What there has been so far. */
async function verdictOn(contestants: readonly Contestant[]): Promise<Verdict> {
  const testimonies = await Promise.all(contestants.map((one) => one.testimonies()));
  return judge(await arena.history(), testimonies.flat());
}

/** Nobody is accused; or else the evidence is told: the folder that holds it goes with the test. */
async function expectNoViolation(verdict: Verdict, contestants: readonly Contestant[]): Promise<void> {
  const first = [...Map.groupBy(verdict.violations, ({ lock }) => lock).values()].flatMap(([one]) => one ?? []);
  if (first.length > 0) {
    const history = await arena.history();
    const testimonies = (await Promise.all(contestants.map((one) => one.testimonies()))).flat();
    for (const { lock, atMs, what } of first) {
      const isNear = (at: number) => Math.abs(at - atMs) <= evidenceMs;
      const journals = testimonies
        .flatMap(({ lines }) => lines)
        .filter((line) => isNear(line.at) && (!('lock' in line) || line.lock === lock))
        .map((line) => JSON.stringify({ ...line, at: Math.round(line.at - atMs) }));
      const frozen = testimonies.flatMap((one) =>
        one.frozen.filter(({ from, until }) => isNear(from) || isNear(until)),
      );
      const stops = frozen.map(({ from, until }) => `${Math.round(from - atMs)} to ${Math.round(until - atMs)} ms`);
      const account = accountOf(history, lock, atMs, evidenceMs);
      console.log([what, account, ...journals, `somebody was frozen: ${stops.join(', ')}`].join('\n'));
    }
  }
  expect(verdict.violations).toEqual([]);
}

/** Waits until there were enough elections, each kind of fault has happened, and a write has landed too late. */
async function enough(contestants: readonly Contestant[], happened: ReadonlyMap<FaultKind, number>): Promise<void> {
  let missing: readonly string[] = [];
  const look = async (): Promise<boolean> => {
    await delay(500);
    const held = await elections();
    missing = possibleFaults.filter((kind) => !happened.has(kind));
    if (held < wanted) missing = [`${wanted - held} of ${wanted} elections`, ...missing];
    if (missing.length > 0) return false;
    if ((await verdictOn(contestants)).late.refused === 0) missing = ['a write that lands late'];
    return missing.length === 0;
  };
  await eventually('enough elections', look, timeLimitMs).catch((cause: unknown) => {
    throw new Error(`within ${timeLimitMs / 1000} s there was not enough: ${missing.join(', ')}`, { cause });
  });
}

/** Waits until somebody holds each lock and goes on renewing it. */
async function everyLockIsLed(locks: readonly string[]): Promise<void> {
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

test(
  'whatever happens, nobody begins a write to what another leads, and in the end somebody leads everything',
  async () => {
    console.log(`elections at random: ELECTIONS_SEED=${seed}`);
    await using contestants = new AsyncDisposableStack();
    const entered: Contestant[] = [];
    for (const name of ['ours-0', 'ours-1', 'ours-2', 'client-go']) {
      entered.push(contestants.use(await enter(name, locks, timings, connections)));
    }

    const happened = new Map<FaultKind, number>();
    const calm = new AbortController();
    const startedAt = monotonicMs();
    const torments = Promise.all(
      entered.map((one, index) => torment(one, seed + index * seedStride, happened, calm.signal)),
    );
    try {
      // A contestant that ends of its own accord ends the test.
      await Promise.race([enough(entered, happened), torments]);
    } finally {
      calm.abort();
      await torments;
    }
    const tookMs = monotonicMs() - startedAt;
    await everyLockIsLed(locks);
    for (const one of entered) await one.stop();

    const verdict = await verdictOn(entered);
    console.log(summary(verdict, happened, tookMs));
    await expectNoViolation(verdict, entered);
    expect(verdict.elections).toBeGreaterThanOrEqual(wanted);
    // Else it has tested nothing.
    expect(verdict.begun).toBeGreaterThan(wanted);
  },
  timeLimitMs + 180_000,
);

const freezes = 3;
/** Those who are not to be frozen have the time to renew, also on a machine that is busy. */
const longer: LeaseTimings = { leaseDurationSeconds: 4, renewDeadlineSeconds: 2.5, retryPeriodSeconds: 0.5 };

test.each([
  ['that has connections to spare', 32],
  ['whose requests wait for a connection', 1],
])('a leader %s, frozen for longer than its Lease lasts, begins nothing when it wakes', async (_, connections) => {
  await using contestants = new AsyncDisposableStack();
  const lock = `frozen-${connections}`;
  await arena.client.create(ConfigMap, { metadata: { namespace, name: lock } });
  const one = contestants.use(await enter(`frozen-${connections}-one`, [lock], longer, connections));
  const other = contestants.use(await enter(`frozen-${connections}-other`, [lock], longer, connections));
  for (let count = 0; count < freezes; count += 1) {
    const [victim, heir] = await eventually('one leads', async () => {
      if ((await one.held()).length === 1) return [one, other] as const;
      return (await other.held()).length === 1 && ([other, one] as const);
    });
    const begunBefore = await begunBy(victim);
    await eventually('it writes', async () => (await begunBy(victim)) > begunBefore);
    victim.freeze();
    await eventually('the other leads', async () => (await heir.held()).length === 1);
    expect(await victim.thaw()).toBe(true);
    await eventually('the victim stands by', async () => victim.proxy.watches === 1);
  }
  const both = [one, other];
  for (const contestant of both) await contestant.stop();
  await expectNoViolation(await verdictOn(both), both);
});

async function begunBy(contestant: Contestant): Promise<number> {
  const lines = (await contestant.testimonies()).flatMap((testimony) => testimony.lines);
  return lines.filter(({ type }) => type === 'begun').length;
}

function summary(verdict: Verdict, happened: ReadonlyMap<FaultKind, number>, tookMs: number): string {
  const { elections, begun, late, frozenOnTheWayOut } = verdict;
  return [
    `${elections} elections in ${Math.round(tookMs / 1000)} s; leaders began ${begun} requests, of which ${frozenOnTheWayOut} were frozen on the way out`,
    `of their writes landed late: ${late.refused} that were refused, ${late.beforeTheNextWrite} before the next leader's first`,
    `faults: ${[...happened].map(([kind, count]) => `${kind} ${count}`).join(', ')}`,
  ].join('\n');
}
