import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { Lease } from '@echoperator/runtime/kinds';
import type { LeaseTimings } from '@echoperator/runtime/leader-election';
import { FaultProxy, type RequestFilter } from '@echoperator/testing';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { eventually } from '../../../testkit/eventually.ts';
import { Arena } from './environment/arena.ts';
import { CandidateProcess, clientGo, ours } from './environment/candidate-process.ts';
import { isSuccess, namespace } from './environment/history.ts';

/** So long that only a release frees the Lease, and that our candidates do not poll it. */
const long: LeaseTimings = { leaseDurationSeconds: 300, renewDeadlineSeconds: 200, retryPeriodSeconds: 60 };
/**
 * With a short retry period: client-go polls for a release, and our leader notices at a renewal that it has lost the
 * Lease.
 */
const polling: LeaseTimings = { ...long, retryPeriodSeconds: 0.3 };
const short: LeaseTimings = { leaseDurationSeconds: 12, renewDeadlineSeconds: 9, retryPeriodSeconds: 0.3 };

let arena: Arena;
let proxy: FaultProxy;
const running: CandidateProcess[] = [];

beforeAll(async () => {
  arena = await Arena.open();
  proxy = await FaultProxy.start({ upstream: arena.server.connection });
}, 300_000);

afterEach(async () => {
  for (const one of running.splice(0)) await one[Symbol.asyncDispose]();
});

afterAll(async () => {
  await proxy.close();
  await arena[Symbol.asyncDispose]();
});

type Kind = 'ours' | 'client-go';

async function start(kind: Kind, locks: readonly string[], timings: LeaseTimings): Promise<CandidateProcess> {
  const journal = join(arena.folder, `${randomUUID()}.jsonl`);
  const settings = { server: proxy.connection.server.href, name: kind, journal, locks, timings };
  const command = kind === 'ours' ? ours(arena.programs, settings) : clientGo(arena.programs, settings);
  const candidate = await CandidateProcess.start(command);
  running.push(candidate);
  return candidate;
}

/** Starts a candidate and waits until it stands by: ours watches, client-go has read the Lease once. */
async function startStandby(kind: Kind, lock: string, timings: LeaseTimings): Promise<CandidateProcess> {
  let reads = 0;
  const counting: RequestFilter = ({ resource, name }) => {
    if (resource === 'leases' && name === lock) reads += 1;
    return false;
  };
  const counter = proxy.inject({ type: 'silence' }, { on: counting });
  const candidate = await start(kind, [lock], timings);
  await eventually('the standby has read the Lease', async () => reads > 0);
  if (kind === 'ours') await eventually('the standby watches', async () => proxy.watches > 0);
  counter.off();
  return candidate;
}

/** The holders of a lock, in order. */
async function holders(lock: string): Promise<readonly string[]> {
  const { tenures } = await arena.history();
  return (tenures.get(lock) ?? []).map(({ identity }) => identity.split('_')[0] ?? '');
}

test('our candidate acquires a Lease that client-go releases at once, and client-go acquires one that ours releases', async () => {
  const lock = 'released';
  const go = await start('client-go', [lock], long);
  await arena.heldBy(lock, 'client-go');
  const own = await startStandby('ours', lock, long);
  await go.stop();
  const taken = await arena.heldBy(lock, 'ours');
  expect(taken.spec).toMatchObject({ leaseDurationSeconds: 300, leaseTransitions: 1 });
  await startStandby('client-go', lock, polling);
  await own.stop();
  const back = await arena.heldBy(lock, 'client-go');
  expect(back.spec).toMatchObject({ leaseDurationSeconds: 300, leaseTransitions: 2 });
  expect(await holders(lock)).toEqual(['client-go', 'ours', 'client-go']);
});

/** client-go reads renewTime in whole seconds, so as a standby it sees only the first renewal in each second. */
const unseenMs = { 'client-go': 1_000, ours: 0 } as const;

test.each([
  ['client-go', 'ours'],
  ['ours', 'client-go'],
] as const)('when %s is killed, %s leads once the Lease has expired', async (first, second) => {
  const lock = `killed-${first}`;
  const victim = await start(first, [lock], short);
  await arena.heldBy(lock, first);
  await startStandby(second, lock, short);
  await victim.kill();
  await arena.heldBy(lock, second);
  const { tenures } = await arena.history();
  const [before, after] = tenures.get(lock)!;
  const lastRenewal = before!.renewedAt.at(-1)!;
  expect(after!.from - lastRenewal).toBeGreaterThan(short.leaseDurationSeconds * 1000 - unseenMs[second]);
});

const standbys = 10;
const releases = 5;

// How few of them write at all depends on the machine; test/unit/runtime/leader-election/standby.test.ts tests it with
// a fake clock.
test('one of many standbys acquires a released Lease, and no other one writes to it', async () => {
  const lock = 'herd';
  const key = { namespace, name: lock };
  const spec = () => {
    const now = new Date().toISOString().replace('Z', '000Z');
    return { holderIdentity: 'test', leaseDurationSeconds: 300, acquireTime: now, renewTime: now };
  };
  await arena.client.create(Lease, { metadata: key, spec: spec() });
  await start('ours', Array(standbys).fill(lock), polling);
  for (let count = 0; count < releases; count += 1) {
    await eventually('all watch the Lease', async () => proxy.watches === standbys);
    const lease = await arena.client.get(Lease, key);
    const free = await arena.client.update(Lease, { ...lease, spec: { ...lease.spec, holderIdentity: '' } });
    // The winner loses the Lease at its next renewal, and stands by again.
    await eventually('the test holds the Lease again', async () => {
      return arena.client.update(Lease, { ...(await arena.heldBy(lock, 'ours')), spec: spec() });
    });
    const writes = (await arena.history()).leaseWrites.get(lock) ?? [];
    const claims = writes.filter(({ precondition }) => precondition === Number(free.metadata.resourceVersion));
    expect(claims.filter(({ code }) => isSuccess(code))).toHaveLength(1);
    expect(new Set(claims.map(({ holder }) => holder)).size).toBe(claims.length);
  }
});
