import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { HttpClient } from '../../src/runtime/client/http-client.ts';
import { kubeconfigConnection } from '../../src/runtime/client/index.ts';
import { Transport } from '../../src/runtime/client/transport.ts';
import {
  LeaderElector,
  LeadershipLostError,
  Lease,
  type LeaseTimings,
} from '../../src/runtime/leader-election/index.ts';
import { eventually, FaultProxy, isWatch, type RequestFilter } from '../../src/runtime/testing/index.ts';
import { RecordingLog } from '../../testkit/recording-log.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';

/** Short enough to wait for, long enough for a machine that is slow. */
const timings: LeaseTimings = { leaseDurationSeconds: 6, renewDeadlineSeconds: 4, retryPeriodSeconds: 0.5 };
/** Within a test no Lease expires, and no standby polls: whoever takes a released Lease was told by its watch. */
const patient: LeaseTimings = { leaseDurationSeconds: 3600, renewDeadlineSeconds: 3000, retryPeriodSeconds: 600 };

const isUpdate: RequestFilter = ({ verb, resource }) => verb === 'update' && resource === 'leases';
const isCreate: RequestFilter = ({ verb, resource }) => verb === 'create' && resource === 'leases';

let cluster: TestCluster;
let namespace: string;
let name: string;
let candidates: Candidate[];

interface CandidateOptions {
  /** Default: a uuid. */
  readonly identity?: string;
  /** What it does while it leads. Default: it waits until it is stopped. */
  readonly lead?: (stop: AbortSignal) => Promise<void>;
  /** Default: short ones. */
  readonly timings?: LeaseTimings;
}

/** A candidate for the test's Lease, behind a proxy of its own. */
class Candidate {
  readonly proxy: FaultProxy;
  readonly elector: LeaderElector;
  readonly identity: string;
  readonly log = new RecordingLog();
  readonly leaders: string[] = [];
  /** How `run` ended. */
  readonly ended: Promise<unknown>;
  /** When it was told that it leads (performance.now). */
  leadsSinceMs: number | undefined;
  /** What `lead` has been told to stop for. */
  stopReason: unknown;
  readonly #stop = new AbortController();
  readonly #transport: Transport;

  private constructor(proxy: FaultProxy, { identity = randomUUID(), lead = untilStopped, ...rest }: CandidateOptions) {
    this.proxy = proxy;
    this.identity = identity;
    this.#transport = new Transport(proxy.connection, { userAgent: 'candidate' });
    this.elector = new LeaderElector({
      client: new HttpClient(this.#transport, 'candidate'),
      lease: { namespace, name },
      identity,
      timings: rest.timings ?? timings,
      log: this.log,
      onNewLeader: (leader) => this.leaders.push(leader),
    });
    this.ended = this.elector
      .run(this.#stop.signal, async (stop) => {
        this.leadsSinceMs = performance.now();
        await lead(stop);
        this.stopReason = stop.reason;
      })
      .then(
        () => 'resolved',
        (error: unknown) => error,
      );
  }

  static async start(options: CandidateOptions = {}): Promise<Candidate> {
    const proxy = await FaultProxy.start({ upstream: await kubeconfigConnection(cluster.kubeconfig) });
    const candidate = new Candidate(proxy, options);
    candidates.push(candidate);
    return candidate;
  }

  get leads(): boolean {
    return this.elector.isLeading;
  }

  stop(): Promise<unknown> {
    this.#stop.abort();
    return this.ended;
  }

  /** Nothing reaches the API server any more, or comes back from it, and nobody says so. */
  cutOff(): void {
    this.proxy.inject({ type: 'silence' });
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.proxy.close();
    await this.ended;
    await this.#transport.close();
  }
}

const untilStopped = (stop: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (stop.aborted) resolve();
    else stop.addEventListener('abort', () => resolve(), { once: true });
  });

const lease = (): Promise<Lease> => cluster.client.get(Lease, { namespace, name });
const leads = (candidate: Candidate): Promise<boolean> =>
  eventually(`${candidate.identity} leads`, async () => candidate.leads);
const standsBy = (candidate: Candidate, leader: Candidate): Promise<boolean> =>
  eventually(`${candidate.identity} sees the leader`, async () => candidate.leaders.at(-1) === leader.identity);

/** One that leads, and others that watch it do so. */
async function group(size: number, options: CandidateOptions = {}): Promise<[Candidate, ...Candidate[]]> {
  const leader = await Candidate.start(options);
  await leads(leader);
  const standbys = await Promise.all(Array.from({ length: size - 1 }, () => Candidate.start(options)));
  for (const standby of standbys) await standsBy(standby, leader);
  await eventually('all standbys watch', async () => standbys.every(({ proxy }) => proxy.watches === 1));
  return [leader, ...standbys];
}

beforeAll(async () => {
  cluster = await TestCluster.connect();
  namespace = await cluster.namespace();
});
afterAll(() => cluster.close());
beforeEach(() => {
  name = `lock-${randomUUID()}`;
  candidates = [];
});
afterEach(async () => {
  await Promise.all(candidates.map((candidate) => candidate.close()));
});

describe('a handover', () => {
  test('the first makes the Lease and leads; others stand by and leave it alone', async () => {
    const [leader, standby] = await group(3);
    const { spec } = await lease();
    expect(spec).toMatchObject({ holderIdentity: leader.identity, leaseDurationSeconds: 6, leaseTransitions: 0 });
    expect(candidates.filter((candidate) => candidate.leads)).toEqual([leader]);
    expect(() => standby?.elector.fence.pass()).toThrow('holds no lease yet');
    leader.elector.fence.pass();
    // Two renewals later.
    await eventually('renewals', async () => {
      const { renewTime, acquireTime } = (await lease()).spec ?? {};
      return Date.parse(renewTime ?? '') - Date.parse(acquireTime ?? '') > 1000;
    });
    expect(standby?.proxy.answered(409)).toBe(0);
  });

  test('a released Lease is taken by one of the standbys, who learn of the release by their watch', async () => {
    const [leader, ...standbys] = await group(4, { timings: patient });
    expect(await leader.stop()).toBe('resolved');
    const next = await eventually('another leads', async () => standbys.find((candidate) => candidate.leads));
    for (const standby of standbys) await standsBy(standby, next);
    expect(standbys.filter((candidate) => candidate.leads)).toEqual([next]);
    expect((await lease()).spec).toMatchObject({ holderIdentity: next.identity, leaseTransitions: 1 });
    // Each that lost the race was refused once, or learned of the winner before it asked.
    for (const standby of standbys) expect(standby.proxy.answered(409)).toBeLessThanOrEqual(1);
  });

  test('the leader leads until its work has come to an end, and renews meanwhile', async () => {
    const work = Promise.withResolvers<void>();
    const leader = await Candidate.start({
      lead: async (stop) => {
        await untilStopped(stop);
        await work.promise;
      },
    });
    await leads(leader);
    const standby = await Candidate.start();
    await standsBy(standby, leader);
    const ended = leader.stop();
    const before = (await lease()).spec?.renewTime;
    await eventually('a renewal while it drains', async () => (await lease()).spec?.renewTime !== before);
    leader.elector.fence.pass();
    expect(standby.leads).toBe(false);
    work.resolve();
    expect(await ended).toBe('resolved');
    expect(() => leader.elector.fence.pass()).toThrow('has given its lease back');
    await leads(standby);
  });

  test('one whose work fails gives the Lease back, and throws what it threw', async () => {
    const leader = await Candidate.start({
      lead: async () => {
        throw new Error('a defect');
      },
    });
    expect(await leader.ended).toEqual(new Error('a defect'));
    expect((await lease()).spec?.holderIdentity).toBe('');
  });

  test('a standby that is stopped just ends', async () => {
    const [leader, standby] = await group(2);
    expect(await standby?.stop()).toBe('resolved');
    expect(leader.leads).toBe(true);
    expect((await lease()).spec?.holderIdentity).toBe(leader.identity);
  });
});

describe('a leader that is cut off', () => {
  test('stops before another begins, and says that it has lost the Lease', async () => {
    const [leader, standby] = await group(2);
    const closedAtMs = new Promise<number>((resolve) => {
      leader.elector.fence.signal.addEventListener('abort', () => resolve(performance.now()), { once: true });
    });
    leader.cutOff();
    expect(await leader.ended).toBeInstanceOf(LeadershipLostError);
    expect(leader.stopReason).toBeInstanceOf(LeadershipLostError);
    expect(() => leader.elector.fence.pass()).toThrow(LeadershipLostError);
    if (standby === undefined) throw new Error('there is a standby');
    await leads(standby);
    expect(await closedAtMs).toBeLessThan(standby.leadsSinceMs ?? 0);
  });

  test('for less than its deadline leads on', async () => {
    const [leader, standby] = await group(2);
    const refused = leader.proxy.inject(
      { type: 'answer', status: 500, reason: 'InternalError' },
      { on: isUpdate, times: 3 },
    );
    await eventually('three failed renewals', async () => refused.count === 3);
    const before = (await lease()).spec?.renewTime;
    await eventually('a renewal', async () => (await lease()).spec?.renewTime !== before);
    expect(leader.leads).toBe(true);
    expect(standby?.leads).toBe(false);
  });

  test('is told of a renewal whose answer was lost by what it reads', async () => {
    const [leader] = await group(1);
    const lost = leader.proxy.inject({ type: 'lost-reply' }, { on: isUpdate, times: 2 });
    await eventually('two lost replies', async () => lost.count === 2);
    const before = (await lease()).spec?.renewTime;
    await eventually('a renewal', async () => (await lease()).spec?.renewTime !== before);
    expect(leader.proxy.answered(409)).toBeGreaterThan(0);
    expect(leader.leads).toBe(true);
  });

  test('cannot release: the Lease expires, and it ends all the same', async () => {
    const [leader, standby] = await group(2);
    leader.proxy.inject({ type: 'answer', status: 500, reason: 'InternalError' }, { on: isUpdate });
    expect(await leader.stop()).toBe('resolved');
    expect(leader.log.messages('warn')).toContain('the lease could not be released: it expires');
    if (standby === undefined) throw new Error('there is a standby');
    await leads(standby);
  });
});

describe('a Lease that others touch', () => {
  test("with another's name on it is lost at once", async () => {
    const [leader] = await group(1);
    await cluster.client.patch(
      Lease,
      { namespace, name },
      { type: 'merge', body: { spec: { holderIdentity: 'else' } } },
    );
    const error = await leader.ended;
    expect(error).toBeInstanceOf(LeadershipLostError);
    expect(String(error)).toContain(`the lease ${namespace}/${name} is held by else`);
    expect((await lease()).spec?.holderIdentity).toBe('else');
  });

  test('that is deleted is made again by its holder, and by nobody else', async () => {
    const [leader, standby] = await group(2);
    await cluster.client.delete(Lease, { namespace, name });
    await eventually('it is there again', async () => (await lease()).spec?.holderIdentity === leader.identity);
    expect(leader.leads).toBe(true);
    expect(standby?.leads).toBe(false);
    expect(standby?.proxy.answered(201)).toBe(0);
  });

  test('that is labelled in between stays with its holder', async () => {
    const [leader] = await group(1);
    for (let count = 0; count < 3; count++) {
      const body = { metadata: { labels: { count: String(count) } } };
      await cluster.client.patch(Lease, { namespace, name }, { type: 'merge', body });
      const before = (await lease()).spec?.renewTime;
      await eventually('a renewal', async () => (await lease()).spec?.renewTime !== before);
    }
    expect((await lease()).metadata.labels).toEqual({ count: '2' });
    expect(leader.leads).toBe(true);
  });
});

describe('a standby with a bad connection', () => {
  test('that gets no answer to what made it the holder leads when it has seen that', async () => {
    const proxied = await Candidate.start({ identity: 'lost' });
    // Before its first request is through: it looks first.
    const lost = proxied.proxy.inject({ type: 'lost-reply' }, { on: isCreate, times: 1 });
    await leads(proxied);
    expect(lost.count).toBe(1);
    expect((await lease()).spec?.holderIdentity).toBe('lost');
  });

  test('whose watches are refused asks instead', async () => {
    const [leader, standby] = await group(2);
    if (standby === undefined) throw new Error('there is a standby');
    const refused = standby.proxy.inject({ type: 'answer', status: 403, reason: 'Forbidden' }, { on: isWatch });
    const cut = standby.proxy.inject({ type: 'cut', how: 'reset' }, { on: isWatch });
    await eventually('a refused watch', async () => refused.count > 0);
    expect(await leader.stop()).toBe('resolved');
    await leads(standby);
    expect(cut.count + refused.count).toBeGreaterThan(0);
  });

  test('that starts while the API server is down waits for it', async () => {
    const refused = { type: 'answer', status: 503, reason: 'ServiceUnavailable' } as const;
    const candidate = await Candidate.start();
    const down = candidate.proxy.inject(refused);
    await eventually('it has tried in vain', async () => down.count > 2);
    expect(candidate.leads).toBe(false);
    down.off();
    await leads(candidate);
  });
});
