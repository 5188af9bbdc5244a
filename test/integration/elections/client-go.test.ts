import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { Lease, type LeaseTimings } from '../../../src/runtime/leader-election/index.ts';
import { eventually, FaultProxy, type RequestFilter } from '../../../src/runtime/testing/index.ts';
import { Arena } from './environment/arena.ts';
import { CandidateProcess, clientGo, ours } from './environment/candidate-process.ts';
import { isSuccess, namespace } from './environment/history.ts';

/** Nobody takes such a Lease but because it was released, and no candidate of ours asks for it twice in a minute. */
const patient: LeaseTimings = { leaseDurationSeconds: 300, renewDeadlineSeconds: 200, retryPeriodSeconds: 60 };
/** client-go learns of a release by asking, ours when it renews that it has lost the Lease. */
const asking: LeaseTimings = { ...patient, retryPeriodSeconds: 0.3 };
const short: LeaseTimings = { leaseDurationSeconds: 2, renewDeadlineSeconds: 1.2, retryPeriodSeconds: 0.3 };

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

/** Starts one and waits until it stands by: ours watches, client-go has asked once. */
async function startStandby(kind: Kind, lock: string, timings: LeaseTimings): Promise<CandidateProcess> {
  let asked = 0;
  const counting: RequestFilter = ({ resource, name }) => {
    if (resource === 'leases' && name === lock) asked += 1;
    return false;
  };
  const counter = proxy.inject({ type: 'silence' }, { on: counting });
  const candidate = await start(kind, [lock], timings);
  await eventually('the standby has seen the Lease', async () => asked > 0);
  if (kind === 'ours') await eventually('the standby watches', async () => proxy.watches > 0);
  counter.off();
  return candidate;
}

/** Who has held a lock, one after the other. */
async function holders(lock: string): Promise<readonly string[]> {
  const { tenures } = await arena.history();
  return (tenures.get(lock) ?? []).map(({ identity }) => identity.split('_')[0] ?? '');
}

test('what client-go releases ours takes at once, what ours releases client-go takes', async () => {
  const lock = 'released';
  const go = await start('client-go', [lock], patient);
  await arena.heldBy(lock, 'client-go');
  const own = await startStandby('ours', lock, patient);
  await go.stop();
  const taken = await arena.heldBy(lock, 'ours');
  expect(taken.spec).toMatchObject({ leaseDurationSeconds: 300, leaseTransitions: 1 });
  await startStandby('client-go', lock, asking);
  await own.stop();
  const back = await arena.heldBy(lock, 'client-go');
  expect(back.spec).toMatchObject({ leaseDurationSeconds: 300, leaseTransitions: 2 });
  expect(await holders(lock)).toEqual(['client-go', 'ours', 'client-go']);
});

/** client-go takes a Lease that is renewed twice in a second for one that was renewed once. */
async function hasRenewedLateInASecond(lock: string): Promise<void> {
  await eventually('the holder has renewed late in a second', async () => {
    const { spec } = await arena.client.get(Lease, { namespace, name: lock });
    return Number(spec?.renewTime?.slice(-7, -4)) > 700;
  });
}

test.each([
  ['client-go', 'ours'],
  ['ours', 'client-go'],
] as const)('when %s is killed, %s leads once the Lease has expired', async (first, second) => {
  const lock = `killed-${first}`;
  const victim = await start(first, [lock], short);
  await arena.heldBy(lock, first);
  await startStandby(second, lock, short);
  await hasRenewedLateInASecond(lock);
  await victim.kill();
  await arena.heldBy(lock, second);
  const { tenures } = await arena.history();
  const [before, after] = tenures.get(lock)!;
  const lastRenewal = before!.renewedAt.at(-1)!;
  expect(after!.from - lastRenewal).toBeGreaterThan(short.leaseDurationSeconds * 1000);
});

const standbys = 10;
const releases = 5;

// That few of them ask at all depends on how fast the machine is; test/unit/runtime/leader-election/standby.test.ts has it on a
// clock of its own.
test('of many that stand by one takes a released Lease, and nobody asks for it twice', async () => {
  const lock = 'herd';
  const key = { namespace, name: lock };
  const spec = () => {
    const now = new Date().toISOString().replace('Z', '000Z');
    return { holderIdentity: 'test', leaseDurationSeconds: 300, acquireTime: now, renewTime: now };
  };
  await arena.client.create(Lease, { metadata: key, spec: spec() });
  await start('ours', Array(standbys).fill(lock), asking);
  for (let count = 0; count < releases; count += 1) {
    await eventually('all stand by', async () => proxy.watches === standbys);
    const lease = await arena.client.get(Lease, key);
    const free = await arena.client.update(Lease, { ...lease, spec: { ...lease.spec, holderIdentity: '' } });
    // The winner finds it taken from it when it renews it, and stands by again.
    await eventually('the test holds it again', async () => {
      return arena.client.update(Lease, { ...(await arena.heldBy(lock, 'ours')), spec: spec() });
    });
    const writes = (await arena.history()).leaseWrites.get(lock) ?? [];
    const asked = writes.filter(({ precondition }) => precondition === Number(free.metadata.resourceVersion));
    expect(asked.filter(({ code }) => isSuccess(code))).toHaveLength(1);
    expect(new Set(asked.map(({ holder }) => holder)).size).toBe(asked.length);
  }
});
