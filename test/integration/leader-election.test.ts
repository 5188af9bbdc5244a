import { randomUUID } from 'node:crypto';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import { Lease } from '@echoperator/runtime/kinds';
import { LeaderElector, LeadershipLostError, type LeaseTimings } from '@echoperator/runtime/leader-election';
import { FaultProxy, isWatch, type RequestFilter } from '@echoperator/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { HttpClient } from '../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../packages/runtime/src/client/transport.ts';
import { eventually } from '../../testkit/eventually.ts';
import { inTime } from '../../testkit/in-time.ts';
import { RecordingLog } from '../../testkit/recording-log.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';

/** Renewed often, but no Lease is lost because the API server of a busy machine does not answer for some seconds. */
const timings: LeaseTimings = { leaseDurationSeconds: 60, renewDeadlineSeconds: 40, retryPeriodSeconds: 0.5 };
/** For tests that wait until a Lease expires. */
const expiring: LeaseTimings = { leaseDurationSeconds: 8, renewDeadlineSeconds: 6, retryPeriodSeconds: 0.5 };
/**
 * So long that no Lease expires and no standby polls within a test: a standby learns of a release only by its watch.
 */
const long: LeaseTimings = { leaseDurationSeconds: 3600, renewDeadlineSeconds: 3000, retryPeriodSeconds: 600 };

const isUpdate: RequestFilter = ({ verb, resource }) => verb === 'update' && resource === 'leases';
const isCreate: RequestFilter = ({ verb, resource }) => verb === 'create' && resource === 'leases';

let cluster: TestCluster;
let namespace: string;
let name: string;
let candidates: Candidate[];

interface CandidateOptions {
  /** Default: a uuid. */
  readonly identity?: string;
  /** The leader's work. Default: waits until it is stopped. */
  readonly lead?: (stop: AbortSignal) => Promise<void>;
  /** Default: those that are renewed often and do not expire. */
  readonly timings?: LeaseTimings;
}

/** A candidate for the test's Lease, with its own proxy. */
class Candidate {
  readonly proxy: FaultProxy;
  readonly elector: LeaderElector;
  readonly identity: string;
  readonly log = new RecordingLog();
  readonly leaders: string[] = [];
  /** The result of `run`: see {@link end}. */
  readonly ended: Promise<unknown>;
  /** When `lead` was called (performance.now). */
  leadsSinceMs: number | undefined;
  /** The reason for which the signal of `lead` was aborted. */
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
    return this.end();
  }

  end(): Promise<unknown> {
    return inTime(`${this.identity} ends`, this.ended);
  }

  /** Drops all traffic with the API server without closing connections. */
  cutOff(): void {
    this.proxy.inject({ type: 'silence' });
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.proxy.close();
    await this.end();
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

/** A leader, and standbys that have observed it. */
async function startGroup(size: number, options: CandidateOptions = {}): Promise<[Candidate, ...Candidate[]]> {
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
  test('the first candidate creates the Lease and leads; the others stand by and do not write to it', async () => {
    const [leader, standby] = await startGroup(3);
    const { spec } = await lease();
    expect(spec).toMatchObject({ holderIdentity: leader.identity, leaseDurationSeconds: 60, leaseTransitions: 0 });
    expect(candidates.filter((candidate) => candidate.leads)).toEqual([leader]);
    expect(() => standby?.elector.fence.pass()).toThrow('holds no lease yet');
    leader.elector.fence.pass();
    // Two renewals later.
    await eventually('renewals', async () => {
      const { renewTime, acquireTime } = (await lease()).spec ?? {};
      return Date.parse(renewTime ?? '') - Date.parse(acquireTime ?? '') > 1000;
    });
    expect(standby?.proxy.responses(409)).toBe(0);
  });

  test('one of the standbys takes a released Lease, which they observe by their watch', async () => {
    const [leader, ...standbys] = await startGroup(4, { timings: long });
    expect(await leader.stop()).toBe('resolved');
    const next = await eventually('another leads', async () => standbys.find((candidate) => candidate.leads));
    for (const standby of standbys) await standsBy(standby, next);
    expect(standbys.filter((candidate) => candidate.leads)).toEqual([next]);
    expect((await lease()).spec).toMatchObject({ holderIdentity: next.identity, leaseTransitions: 1 });
    // Each of the others had one Conflict, or observed the new leader before it wrote.
    for (const standby of standbys) expect(standby.proxy.responses(409)).toBeLessThanOrEqual(1);
  });

  test('a stopped leader leads and renews until its work has ended', async () => {
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
    expect(() => leader.elector.fence.pass()).toThrow('no longer leads');
    await leads(standby);
  });

  test('a leader whose work fails releases the Lease and throws the error', async () => {
    const leader = await Candidate.start({
      lead: async () => {
        throw new Error('a defect');
      },
    });
    expect(await leader.end()).toEqual(new Error('a defect'));
    expect((await lease()).spec?.holderIdentity).toBe('');
  });

  test('a stopped standby ends without writing', async () => {
    const [leader, standby] = await startGroup(2);
    expect(await standby?.stop()).toBe('resolved');
    expect(leader.leads).toBe(true);
    expect((await lease()).spec?.holderIdentity).toBe(leader.identity);
  });
});

describe('a leader that is cut off', () => {
  test('stops before another candidate leads, and throws LeadershipLostError', async () => {
    const [leader, standby] = await startGroup(2, { timings: expiring });
    const closedAtMs = new Promise<number>((resolve) => {
      leader.elector.fence.signal.addEventListener('abort', () => resolve(performance.now()), { once: true });
    });
    leader.cutOff();
    expect(await leader.end()).toBeInstanceOf(LeadershipLostError);
    expect(leader.stopReason).toBeInstanceOf(LeadershipLostError);
    expect(() => leader.elector.fence.pass()).toThrow(LeadershipLostError);
    if (standby === undefined) throw new Error('there is a standby');
    await leads(standby);
    expect(await closedAtMs).toBeLessThan(standby.leadsSinceMs ?? 0);
  });

  test('keeps leading if the outage is shorter than the renew deadline', async () => {
    const [leader, standby] = await startGroup(2);
    const refused = leader.proxy.inject(
      { type: 'error-response', status: 500, reason: 'InternalError' },
      { on: isUpdate, times: 3 },
    );
    await eventually('three failed renewals', async () => refused.count === 3);
    const before = (await lease()).spec?.renewTime;
    await eventually('a renewal', async () => (await lease()).spec?.renewTime !== before);
    expect(leader.leads).toBe(true);
    expect(standby?.leads).toBe(false);
  });

  test('reads the Lease after a renewal whose response was lost, and keeps leading', async () => {
    const [leader] = await startGroup(1);
    const lost = leader.proxy.inject({ type: 'lost-response' }, { on: isUpdate, times: 2 });
    await eventually('two lost replies', async () => lost.count === 2);
    const before = (await lease()).spec?.renewTime;
    await eventually('a renewal', async () => (await lease()).spec?.renewTime !== before);
    expect(leader.proxy.responses(409)).toBeGreaterThan(0);
    expect(leader.leads).toBe(true);
  });

  test('ends although it cannot release the Lease, which expires', async () => {
    const [leader, standby] = await startGroup(2, { timings: expiring });
    leader.proxy.inject({ type: 'error-response', status: 500, reason: 'InternalError' }, { on: isUpdate });
    expect(await leader.stop()).toBe('resolved');
    expect(leader.log.messages('warn')).toContain('the lease could not be released: it expires');
    if (standby === undefined) throw new Error('there is a standby');
    await leads(standby);
  });
});

describe('a Lease that another client changes', () => {
  test('is lost at once if it names another holder', async () => {
    const [leader] = await startGroup(1);
    await cluster.client.patch(
      Lease,
      { namespace, name },
      { type: 'merge', body: { spec: { holderIdentity: 'else' } } },
    );
    const error = await leader.end();
    expect(error).toBeInstanceOf(LeadershipLostError);
    expect(String(error)).toContain(`the lease ${namespace}/${name} is held by else`);
    expect((await lease()).spec?.holderIdentity).toBe('else');
  });

  test('is created again by its holder, and by nobody else, if it is deleted', async () => {
    const [leader, standby] = await startGroup(2);
    const body = { spec: { leaseTransitions: 5 } };
    await cluster.client.patch(Lease, { namespace, name }, { type: 'merge', body });
    await eventually('the leader has observed it', async () => leader.elector.leaseTransitions === 5);
    await cluster.client.delete(Lease, { namespace, name });
    await eventually('the Lease exists again', async () => (await lease()).spec?.holderIdentity === leader.identity);
    expect((await lease()).spec?.leaseTransitions).toBe(5);
    expect(leader.leads).toBe(true);
    expect(standby?.leads).toBe(false);
    expect(standby?.proxy.responses(201)).toBe(0);
  });

  test('stays with its holder if it is labelled', async () => {
    const [leader] = await startGroup(1);
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
  test('leads if the response to its claim was lost, as soon as it reads the Lease', async () => {
    const candidate = await Candidate.start({ identity: 'lost' });
    // In time: a candidate reads the Lease before it creates it.
    const lost = candidate.proxy.inject({ type: 'lost-response' }, { on: isCreate, times: 1 });
    await leads(candidate);
    expect(lost.count).toBe(1);
    expect((await lease()).spec?.holderIdentity).toBe('lost');
  });

  test('reads the Lease if its watches are refused', async () => {
    const [leader, standby] = await startGroup(2);
    if (standby === undefined) throw new Error('there is a standby');
    const refused = standby.proxy.inject({ type: 'error-response', status: 403, reason: 'Forbidden' }, { on: isWatch });
    const cut = standby.proxy.inject({ type: 'cut', how: 'reset' }, { on: isWatch });
    await eventually('a refused watch', async () => refused.count > 0);
    expect(await leader.stop()).toBe('resolved');
    await leads(standby);
    expect(cut.count).toBeGreaterThan(0);
  });

  test('waits if it starts while the API server is down', async () => {
    const refused = { type: 'error-response', status: 503, reason: 'ServiceUnavailable' } as const;
    const candidate = await Candidate.start();
    const down = candidate.proxy.inject(refused);
    await eventually('several requests have failed', async () => down.count > 2);
    expect(candidate.leads).toBe(false);
    down.off();
    await leads(candidate);
  });
});
