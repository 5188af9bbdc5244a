import { ApiError, type Client, type ListOptions } from '@echoperator/runtime/client';
import type { Lease } from '@echoperator/runtime/kinds';
import type { OperatorScope } from '@echoperator/runtime/leader-election';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { ScopeTakenError } from '../../../../packages/runtime/src/leader-election/errors.ts';
import { buildNewLease, type LeaseMetadata } from '../../../../packages/runtime/src/leader-election/lease.ts';
import { ScopeCheck } from '../../../../packages/runtime/src/leader-election/scope-check.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';

/** The Leases of the API server. */
let leases: Lease[];
let asked: ListOptions[];
let failure: unknown;
let log: RecordingLog;
let nowMs: number;
let stop: AbortController;
beforeEach(() => {
  [leases, asked, failure, log, nowMs, stop] = [
    [],
    [],
    undefined,
    new RecordingLog(),
    1_000_000,
    new AbortController(),
  ];
  jest.spyOn(performance, 'now').mockImplementation(() => nowMs);
});
afterEach(() => {
  stop.abort();
  jest.restoreAllMocks();
});

const client = {
  list: async (_: unknown, options: ListOptions) => {
    asked.push(options);
    if (failure !== undefined) throw failure;
    const items = leases.filter(
      ({ metadata: { namespace, labels } }) =>
        (options.namespace ?? namespace) === namespace && Object.hasOwn(labels ?? {}, options.labelSelector ?? ''),
    );
    return { metadata: {}, items };
  },
} as unknown as Pick<Client, 'list'>;

const checkOf = (
  namespaces: OperatorScope['namespaces'],
  { lookIn = 'ownNamespace', lease = 'mine' }: { lookIn?: OperatorScope['lookIn']; lease?: string } = {},
) => new ScopeCheck({ client, log, name: 'greeter', lease: { namespace: 'home', name: lease }, namespaces, lookIn });

let version = 0;
/** A Lease as another operator's leader writes it. */
function claim(
  namespaces: OperatorScope['namespaces'],
  { namespace = 'home', name = 'theirs', holderIdentity = 'pod_1', metadata = checkOf(namespaces).metadata } = {},
): Lease {
  version += 1;
  const renewTime = new Date(version);
  const lease = buildNewLease(
    { namespace, name },
    { holderIdentity, leaseDurationSeconds: 15, renewTime, ...metadata },
  );
  return { ...lease, metadata: { ...lease.metadata, uid: name, resourceVersion: String(version) } } as Lease;
}

const isFree = (check: ScopeCheck): Promise<boolean> =>
  check.requireFree(stop.signal).then(
    () => true,
    (error: unknown) => {
      expect(error).toBeInstanceOf(ScopeTakenError);
      return false;
    },
  );

describe('two operators', () => {
  test.each<[OperatorScope['namespaces'], OperatorScope['namespaces'], string | undefined]>([
    ['all', 'all', 'all namespaces'],
    ['all', ['a', 'b'], 'namespace a, b'],
    [['a', 'b'], 'all', 'namespace a, b'],
    [['a', 'b'], ['b', 'c'], 'namespace b'],
    [['a'], ['b'], undefined],
    [['all'], ['a'], undefined],
  ])('of %j and %j share %p', async (one, other, shared) => {
    leases = [claim(other)];
    const result = checkOf(one).requireFree(stop.signal);
    if (shared === undefined) return result;
    await expect(result).rejects.toThrow(
      `two operators must not watch the same namespace: pod_1 works in ${shared} (lease home/theirs)`,
    );
  });

  /** Each writes its Lease, then looks: however these steps interleave, at most one works. */
  test.each([
    ['ABAB', 0],
    ['ABBA', 0],
    ['BAAB', 0],
    ['BABA', 0],
    ['AABB', 1],
    ['BBAA', 1],
  ])('that begin at the same time never both work: %s', async (order, working) => {
    const checks = { A: checkOf(['x'], { lease: 'A' }), B: checkOf('all', { lease: 'B' }) };
    const free: boolean[] = [];
    const written = new Set<string>();
    for (const name of order as Iterable<'A' | 'B'>) {
      if (written.has(name)) free.push(await isFree(checks[name]));
      else leases.push(claim(name === 'A' ? ['x'] : 'all', { name, holderIdentity: name }));
      written.add(name);
    }
    expect(free.filter(Boolean)).toHaveLength(working);
  });
});

test.each<[string, () => Lease]>([
  ["the operator's own Lease", () => claim('all', { name: 'mine' })],
  ['a Lease of another namespace, which its tenants may write', () => claim('all', { namespace: 'blue' })],
  ['a Lease without a holder', () => claim('all', { holderIdentity: '' })],
  ['a Lease of another operator', () => claim('all', { metadata: { labels: { 'other/scope': '' }, annotations: {} } })],
])('ignores %s', async (_, lease) => {
  leases = [lease()];
  expect(await isFree(checkOf('all'))).toBe(true);
});

test('finds a Lease in any namespace if it looks everywhere', async () => {
  leases = [claim('all', { namespace: 'blue' })];
  expect(await isFree(checkOf(['a'], { lookIn: 'allNamespaces' }))).toBe(false);
});

test.each([undefined, '', '{', '{"a":1}', '[1]', 'null'])('reads the namespaces %p as all', async (text) => {
  const annotations: LeaseMetadata['annotations'] = text === undefined ? {} : { 'greeter/watches': text };
  leases = [claim('all', { metadata: { labels: { 'greeter/scope': '' }, annotations } })];
  expect(await isFree(checkOf(['a']))).toBe(false);
});

describe('another operator', () => {
  test('counts for the duration of its Lease after its last renewal', async () => {
    const check = checkOf('all');
    leases = [claim('all')];
    expect(await isFree(check)).toBe(false);
    nowMs += 14_000;
    leases = [claim('all')];
    expect(await isFree(check)).toBe(false);
    nowMs += 14_999;
    expect(await isFree(check)).toBe(false);
    nowMs += 1;
    expect(await isFree(check)).toBe(true);
    leases = [claim('all')];
    expect(await isFree(check)).toBe(false);
  });

  test('does not count again while its Lease stays as it is', async () => {
    const check = checkOf('all');
    leases = [claim('all')];
    expect(await isFree(check)).toBe(false);
    nowMs += 15_000;
    // An operator waits, then takes its own Lease and looks again.
    expect([await isFree(check), await isFree(check)]).toEqual([true, true]);
    nowMs += 100_000;
    expect(await isFree(check)).toBe(true);
  });

  test('counts as long after its release, because it may be restarting', async () => {
    const check = checkOf('all');
    leases = [claim('all')];
    expect(await isFree(check)).toBe(false);
    nowMs += 5000;
    leases = [claim('all', { holderIdentity: '' })];
    expect(await isFree(check)).toBe(false);
    nowMs += 10_000;
    expect(await isFree(check)).toBe(true);
  });
});

describe('an operator that waits', () => {
  test('logs which other one works, and again when the holder changes, and knows the conflict', async () => {
    const check = checkOf('all');
    leases = [claim('all')];
    const waiting = check.waitUntilFree(stop.signal);
    await eventually('it has looked twice', async () => asked.length >= 2);
    const says = (holder: string) => `${holder} works in all namespaces (lease home/theirs)`;
    const logged = (holder: string) => `${says(holder)}: this operator waits until that one has stopped`;
    expect(log.messages('warn')).toEqual([logged('pod_1')]);
    expect(check.conflict).toBe(says('pod_1'));
    leases = [claim('all', { holderIdentity: 'pod_2' })];
    await eventually('it says so', async () => check.conflict === says('pod_2'));
    expect(log.messages('warn')).toEqual([logged('pod_1'), logged('pod_2')]);
    leases = [];
    nowMs += 15_000;
    await waiting;
    expect(check.conflict).toBeUndefined();
  });

  test('ends its wait when it is stopped', async () => {
    leases = [claim('all')];
    const waiting = checkOf('all').waitUntilFree(stop.signal);
    await eventually('it has looked', async () => asked.length > 0);
    stop.abort();
    await waiting;
  });

  test('tries again after an error', async () => {
    failure = new ApiError('GET /', 500, {});
    const waiting = checkOf('all').waitUntilFree(stop.signal);
    await eventually('it failed', async () => log.messages('warn').length > 0);
    failure = undefined;
    await waiting;
    expect(asked).toHaveLength(2);
  });

  test('does not look if it may not list leases, and says so once', async () => {
    failure = new ApiError('GET /', 403, { reason: 'Forbidden' });
    const check = checkOf('all');
    await check.waitUntilFree(stop.signal);
    await check.requireFree(stop.signal);
    expect(asked).toHaveLength(1);
    expect(log.messages('warn')).toEqual([
      'may not list leases: not looking whether another operator watches the same namespaces',
    ]);
  });
});

describe('while an operator works', () => {
  test('it looks for others if it looks everywhere', async () => {
    const watching = checkOf(['a'], { lookIn: 'allNamespaces' }).watch(stop.signal);
    await eventually('it has looked', async () => asked.length > 0);
    leases = [claim('all', { namespace: 'blue' })];
    await expect(watching).rejects.toThrow('pod_1 works in namespace a (lease blue/theirs)');
  });

  test('it need not look in its own namespace', async () => {
    await checkOf('all').watch(stop.signal);
    expect(asked).toEqual([]);
  });
});
