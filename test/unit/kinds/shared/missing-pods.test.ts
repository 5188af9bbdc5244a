import { GateClosedError } from '@echoperator/runtime/client';
import { Job } from '@echoperator/runtime/kinds';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { type MissingPodsMemory, whyNoPod } from '../../../../src/kinds/shared/missing-pods.ts';
import { ReconcilerWorld } from '../../environment/reconciler-world.ts';

const path = '/apis/events.k8s.io/v1/namespaces/team/events';

let world: ReconcilerWorld;
let memory: MissingPodsMemory;

beforeEach(async () => {
  world = await ReconcilerWorld.start();
  memory = {};
});
afterEach(() => world.close());

const job = (ageMs: number, uid = 'uid-job') => ({
  kind: Job,
  metadata: { namespace: 'team', name: 'hi', uid },
  sinceMs: Date.now() - ageMs,
});
const look = (child: ReturnType<typeof job>) => whyNoPod(child, { client: world.client, memory });
const listed = () => world.server.next({ method: 'GET', path });

const event = (reason: string, note: string, times: object = {}) => ({
  metadata: { name: reason, creationTimestamp: '2026-01-01T00:00:00Z' },
  ...{ type: 'Warning', reason, note, ...times },
});
const list = (...items: readonly object[]) => ({ metadata: { resourceVersion: '1' }, items });

describe('a child without a pod', () => {
  test('is left alone for ten seconds', async () => {
    const { problem, requeueAfterMs } = await look(job(4000));
    expect(problem).toBeUndefined();
    expect(requeueAfterMs).toBeLessThanOrEqual(6000);
    expect(requeueAfterMs).toBeGreaterThan(5000);
    expect(world.server.unclaimed).toBe(0);
  });

  test('gets the warning of its last Event, by one bounded list, without the random name of a pod', async () => {
    const looked = look(job(20_000));
    const request = await listed();
    expect(request.query.get('fieldSelector')).toBe('regarding.uid=uid-job,type=Warning');
    expect(Number(request.query.get('limit'))).toBeLessThanOrEqual(100);
    const last =
      'Error creating: pods "hi-x7k2p" is forbidden: failed quota: compute: must specify\n limits.cpu for: echo';
    request.json(
      200,
      list(
        event('Earlier', 'a', { deprecatedLastTimestamp: '2026-01-01T00:00:01Z' }),
        event('FailedCreate', last, { deprecatedLastTimestamp: '2026-01-01T00:00:03Z' }),
        event('Before', 'b', { series: { count: 2, lastObservedTime: '2026-01-01T00:00:02.000000Z' } }),
      ),
    );
    expect(await looked).toEqual({
      problem: 'FailedCreate: pod is forbidden: failed quota: compute: must specify limits.cpu for: echo',
      requeueAfterMs: expect.any(Number),
    });
  });

  /** As if this process had first seen the child, and last looked, that long ago. */
  const seenFor = (seenForMs: number, uid = 'uid-job') => {
    memory.missingPods = { uid, firstSeenMs: performance.now() - seenForMs, problem: undefined, untilMs: 0 };
  };

  test('is not asked about again before twice that time, nor ever more rarely than every ten minutes', async () => {
    seenFor(20_000);
    const looked = look(job(20_000));
    (await listed()).json(200, list(event('FailedCreate', 'no')));
    const { requeueAfterMs } = await looked;
    expect(Math.round(requeueAfterMs / 1000)).toBe(20);
    const again = await look(job(30_000));
    expect(again.problem).toBe('FailedCreate: no');
    expect(again.requeueAfterMs).toBeLessThanOrEqual(requeueAfterMs);
    expect(world.server.unclaimed).toBe(0);
    seenFor(86_400_000);
    const late = look(job(86_400_000));
    (await listed()).json(200, list());
    expect((await late).requeueAfterMs).toBe(600_000);
  });

  test('that is older than the lack of its pod is looked at at once, and again soon', async () => {
    // Another child of the owner, such as the Job of the next generation.
    seenFor(60_000, 'uid-other');
    const looked = look(job(86_400_000));
    (await listed()).json(200, list());
    expect(await looked).toEqual({ problem: undefined, requeueAfterMs: 10_000 });
  });

  test('without an Event has no problem yet, and after a minute names the command that shows more', async () => {
    seenFor(30_000);
    const early = look(job(86_400_000));
    (await listed()).json(200, list());
    expect((await early).problem).toBeUndefined();
    seenFor(61_000);
    const late = look(job(61_000));
    (await listed()).json(200, list());
    expect((await late).problem).toBe('no Event says why (kubectl --namespace team describe job hi)');
  });

  test.each([
    [403, 'Forbidden'],
    [404, 'NotFound'],
  ])('names that command if the list is refused: %i', async (code, reason) => {
    const looked = look(job(20_000));
    (await listed()).refuse(code, reason);
    expect((await looked).problem).toBe('the operator cannot list Events (kubectl --namespace team describe job hi)');
  });

  const elsewhere = 'the operator cannot list Events (kubectl --namespace team describe job hi)';

  test('of which the list has no response names that command, and is not asked about again at once', async () => {
    const client = { list: () => Promise.reject(new Error('connection lost')) };
    const looked = await whyNoPod(job(20_000), { client, memory });
    expect(looked).toEqual({ problem: elsewhere, requeueAfterMs: 10_000 });
    expect((await look(job(20_000))).problem).toBe(elsewhere);
    expect(world.server.unclaimed).toBe(0);
  });

  test('has no more than a megabyte of Events', async () => {
    const looked = look(job(20_000));
    (await listed()).json(200, list(event('FailedCreate', 'x'.repeat(1024 * 1024))));
    expect((await looked).problem).toBe(elsewhere);
  });

  test('is not looked at by a process that may no longer lead', async () => {
    const client = { list: () => Promise.reject(new GateClosedError('over')) };
    await expect(whyNoPod(job(20_000), { client, memory })).rejects.toThrow(GateClosedError);
  });

  test('gets at most 4 kB of one line', async () => {
    const looked = look(job(20_000));
    (await listed()).json(200, list(event('FailedCreate', '"\n'.repeat(100_000))));
    const { problem = '' } = await looked;
    expect(problem.length).toBeLessThan(4200);
    expect(problem).not.toContain('\n');
  });
});
