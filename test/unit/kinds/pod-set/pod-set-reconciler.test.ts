import { type EventRecorder, type Result, requeueAfter } from '@echoperator/runtime';
import { NoResponseError } from '@echoperator/runtime/client';
import { Pod } from '@echoperator/runtime/kinds';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { Store } from '../../../../packages/runtime/src/cache/store.ts';
import { podSetController } from '../../../../src/kinds/pod-set/controller.ts';
import { PodSet } from '../../../../src/kinds/pod-set/kind.ts';
import { podSettings } from '../../../../testkit/pod-settings.ts';
import { BareWorld } from '../../environment/defined-world.ts';
import type { ReconcilerWorld, Report } from '../../environment/reconciler-world.ts';
import type { Exchange, ScriptedServer } from '../../environment/scripted-server.ts';
import { creationTimestamp, podOf, podSetOf } from './pod-sets.ts';

const key = { name: 'web', namespace: 'default' };
const podsPath = '/api/v1/namespaces/default/pods';
const setPath = '/apis/app.example.com/v1alpha1/namespaces/default/podsets/web';

let bare: BareWorld;
let world: ReconcilerWorld;
let server: ScriptedServer;
let sets: Store<PodSet>;
let pods: Store<Pod>;
/** The Events that were recorded: `PodsMade created web-pod-1`. */
let events: string[];

beforeEach(async () => {
  events = [];
  const record: EventRecorder['record'] = (_, __, { reason, note }) => void events.push(`${reason} ${note}`);
  bare = await BareWorld.start(podSetController(podSettings), { record });
  world = bare.world;
  server = world.server;
  sets = bare.store(PodSet);
  pods = bare.store(Pod);
  sets.addIndex('setsByApp', (set) => [`default/${set.metadata.name}`]);
  pods.addIndex('podsByApp', ({ metadata }) => [`default/${metadata.labels?.app}`]);
});
afterEach(() => bare.close());

/** Begins to reconcile over what the stores hold; a failure is its outcome. */
const reconcile = (): Promise<Result | unknown> => bare.reconcile(key);

/** Begins to reconcile while every status that only tells about progress waits. */

/** A status of generation 1 whose `Ready` has this reason. */
function statusWith(reason: string, status: 'True' | 'False' = 'False'): NonNullable<PodSet['status']> {
  const ready = { type: 'Ready', status, reason, message: '', lastTransitionTime: creationTimestamp };
  return { observedGeneration: 1, conditions: [{ ...ready, observedGeneration: 1 }] };
}

/** The status that is written next, which is accepted. */
const reported = (): Promise<Report<NonNullable<PodSet['status']>>> => world.reported(`${setPath}/status`, podSetOf());

/** The API server is asked for the PodSet itself, and has this one: an earlier reconcile may have made pods. */
async function isCurrent(set: PodSet): Promise<void> {
  (await server.next({ method: 'GET', path: setPath })).json(200, set);
}

/** The request that would make a pod. */
const asked = (): Promise<Exchange> => server.next({ method: 'POST', path: podsPath });
const nameOf = ({ body }: Exchange): string => (body as Pod).metadata.name;

/** Makes the pod that is asked for, and returns its name. */
async function makes(set: PodSet): Promise<string> {
  const request = await asked();
  request.json(201, podOf(set, nameOf(request), { phase: 'Pending' }));
  return nameOf(request);
}

const removal = (name: string): Promise<Exchange> => server.next({ method: 'DELETE', path: `${podsPath}/${name}` });
const leaving = (pod: Pod): object => ({
  kind: 'Pod',
  ...pod,
  metadata: { ...pod.metadata, deletionTimestamp: creationTimestamp },
});

const done = { type: 'done' };
const images = (image: string): Partial<PodSet['spec']> => ({ template: { spec: { containers: [{ image }] } } });
const exceeded = {
  message: 'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2',
};

test('a pod that does not start is named a minute after its creation, which no event tells', async () => {
  const set = podSetOf({ spec: { replicas: 1 } });
  sets.set(set);
  const startedAtMs = Date.now();
  pods.replace([
    podOf(set, 'a', { phase: 'Pending', metadata: { creationTimestamp: new Date(startedAtMs).toISOString() } }),
  ]);
  const outcome = reconcile();
  expect((await reported()).message).toBe('0 of 1 pods are ready');
  const { delayMs } = (await outcome) as Result & { type: 'requeueAfter' };
  expect(Date.now() + delayMs).toBeGreaterThan(startedAtMs + 60_000);
  expect(delayMs).toBeLessThanOrEqual(60_001);

  pods.replace([podOf(set, 'a', { phase: 'Pending', metadata: { resourceVersion: '7' } })]);
  const later = reconcile();
  expect((await reported()).message).toBe(
    `0 of 1 pods are ready; pod a: not started since ${creationTimestamp} (kubectl --namespace default describe pod a)`,
  );
  expect(await later).toEqual(done);
});

describe('missing pods', () => {
  test('are created, one, then two, and reported', async () => {
    const set = podSetOf({ spec: { replicas: 3 } });
    sets.set(set);
    const outcome = reconcile();
    const first = await asked();
    expect(first.query.get('fieldValidation')).toBe('Strict');
    expect(server.unclaimed).toBe(0);
    first.json(201, podOf(set, nameOf(first)));
    const names = [nameOf(first), await makes(set), await makes(set)];
    const { status } = await reported();
    expect(status).toMatchObject({ replicas: 3, podNames: names.toSorted() });
    expect(await outcome).toEqual(done);
  });

  test('are created up to 500 per reconcile, 32 at a time', async () => {
    const set = podSetOf({ spec: { replicas: 4000 } });
    sets.set(set);
    const outcome = reconcile();
    for (let made = 0; made < 500; made += 1) {
      await makes(set);
      expect(server.unclaimed).toBeLessThan(32);
    }
    const { reason, status } = await reported();
    expect([reason, status.replicas]).toEqual(['PodsNotReady', 500]);
    expect(await outcome).toEqual(requeueAfter(0));
    expect(server.unclaimed).toBe(0);
  });

  test('are requested under the same name after a lost answer, because the first request may still be in flight', async () => {
    const set = podSetOf();
    sets.set(set);
    const outcome = reconcile();
    const lost = await asked();
    lost.cut();
    (await server.next({ method: 'GET', path: `${podsPath}/${nameOf(lost)}` })).refuse(404, 'NotFound');
    await reported();
    expect(await outcome).toBeInstanceOf(NoResponseError);

    const again = reconcile();
    const repeated = await asked();
    expect(nameOf(repeated)).toBe(nameOf(lost));
    // It was done meanwhile.
    repeated.refuse(409, 'AlreadyExists');
    const pod = podOf(set, nameOf(lost));
    (await server.next({ method: 'GET', path: `${podsPath}/${nameOf(lost)}` })).json(200, pod);
    expect((await reported()).status.podNames).toEqual([nameOf(lost)]);
    expect(await again).toEqual(done);
  });

  test('are requested under all names without an answer, also after a retry that tried only the first of them', async () => {
    const set = podSetOf({ spec: { replicas: 7 } });
    sets.set(set);
    const isMissing = async (name: string): Promise<void> =>
      (await server.next({ method: 'GET', path: `${podsPath}/${name}` })).refuse(404, 'NotFound');
    const outcome = reconcile();
    const made = [await makes(set), await makes(set), await makes(set)];
    const lost = [await asked(), await asked(), await asked(), await asked()];
    const names = lost.map(nameOf);
    for (const request of lost) request.refuse(500, 'InternalError');
    for (const name of names) await isMissing(name);
    await reported();
    await outcome;
    for (const name of made) pods.set(podOf(set, name));

    const retry = reconcile();
    const first = await asked();
    expect(nameOf(first)).toBe(names[0]);
    first.refuse(500, 'InternalError');
    await isMissing(nameOf(first));
    await reported();
    await retry;

    const again = reconcile();
    const repeated = [await makes(set), await makes(set), await makes(set), await makes(set)];
    expect(repeated.toSorted()).toEqual(names.toSorted());
    await reported();
    expect(await again).toEqual(done);
  });

  test('are not requested under a name whose pod exists', async () => {
    const set = podSetOf({ spec: { replicas: 2 } });
    sets.set(set);
    const outcome = reconcile();
    const lost = await asked();
    lost.cut();
    (await server.next({ method: 'GET', path: `${podsPath}/${nameOf(lost)}` })).cut();
    // A look is tried four times.
    for (let tries = 0; tries < 3; tries += 1) (await server.next({ method: 'GET' })).cut();
    await reported();
    await outcome;
    pods.set(podOf(set, nameOf(lost)));
    const again = reconcile();
    expect(await makes(set)).not.toBe(nameOf(lost));
    expect((await reported()).status.replicas).toBe(2);
    expect(await again).toEqual(done);
  });

  test('that a quota refuses are reported with a constant message and retried', async () => {
    sets.set(podSetOf({ spec: { replicas: 9 } }));
    const quoting = (request: Exchange): void =>
      request.refuse(403, 'Forbidden', { message: `pods "${nameOf(request)}" is forbidden: exceeded quota: q` });
    const outcome = reconcile();
    quoting(await asked());
    const { reason, message, status } = await reported();
    expect(reason).toBe('PodRefused');
    expect(await outcome).toMatchObject({ type: 'retry', error: { code: 403 } });
    sets.set(podSetOf({ spec: { replicas: 9 }, metadata: { resourceVersion: '7' }, status }));
    const again = reconcile();
    await isCurrent(podSetOf());
    quoting(await asked());
    // Nothing is written: it says so already.
    expect(await again).toMatchObject({ type: 'retry', error: { code: 403 } });
    expect(message).toContain('exceeded quota');
    expect(server.unclaimed).toBe(0);
  });
});

describe('an invalid template', () => {
  const invalid: [string, (request: Exchange) => void, string][] = [
    [
      'for a bad value',
      (request) => {
        const causes = [{ reason: 'FieldValueInvalid', field: 'spec.containers[0].name', message: 'bad' }];
        request.refuse(422, 'Invalid', { message: 'spec.containers[0].name: bad', details: { causes } });
      },
      'spec.containers[0].name',
    ],
    [
      'for a wrong type, or a field that there is not',
      (request) =>
        request.refuse(400, 'BadRequest', {
          message: 'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.imagee"',
        }),
      'unknown field "spec.imagee"',
    ],
  ];

  test.each(invalid)(
    '%s is told, and tried again: another version of the API server may accept it',
    async (_, refuse, words) => {
      sets.set(podSetOf());
      const outcome = reconcile();
      refuse(await asked());
      const { reason, message, status } = await reported();
      expect(reason).toBe('InvalidTemplate');
      expect(message).toMatch(/^spec\.template: /);
      expect(message).toContain(words);
      expect(await outcome).toMatchObject({ type: 'retry' });

      const told = podSetOf({ metadata: { resourceVersion: '7' }, status });
      sets.set(told);
      const mended = reconcile();
      await isCurrent(told);
      await makes(told);
      expect((await reported()).reason).toBe('PodsNotReady');
      expect(await mended).toEqual(done);
    },
  );

  test('is not the reason when a webhook refuses the pod', async () => {
    sets.set(podSetOf());
    const outcome = reconcile();
    (await asked()).refuse(400, 'BadRequest', { message: 'admission webhook "policy" denied the request' });
    expect((await reported()).reason).toBe('PodRefused');
    expect(await outcome).toMatchObject({ type: 'retry', error: { code: 400 } });
  });

  const conditions = [
    {
      type: 'Ready',
      status: 'False',
      reason: 'InvalidTemplate',
      message: 'spec.template: bad',
      lastTransitionTime: creationTimestamp,
      observedGeneration: 1,
    },
  ] as const;

  test('is reported even if another request is refused too', async () => {
    const set = podSetOf({ status: { conditions } });
    sets.set(set);
    for (let index = 0; index < 6; index += 1) pods.set(podOf(set, `p-${index}`, { phase: 'Failed' }));
    const outcome = reconcile();
    (await server.next({ method: 'DELETE' })).refuse(403, 'Forbidden');
    await isCurrent(set);
    const causes = [{ reason: 'FieldValueInvalid', field: 'spec.containers[0].name', message: 'bad' }];
    (await asked()).refuse(422, 'Invalid', { message: 'bad', details: { causes } });
    // The counts; the condition says so already.
    expect((await reported()).status.conditions).toBeUndefined();
    expect(await outcome).toMatchObject({ type: 'retry', error: { code: 403 } });
    expect(server.unclaimed).toBe(0);
  });

  test('does not prevent the deletion of surplus pods', async () => {
    const set = podSetOf({ spec: { replicas: 0 }, status: { conditions } });
    sets.set(set);
    const pod = podOf(set, 'a');
    pods.set(pod);
    const outcome = reconcile();
    (await removal('a')).json(200, leaving(pod));
    expect((await reported()).reason).toBe('PodsReady');
    expect(await outcome).toEqual(done);
  });
});

describe('surplus pods', () => {
  const three = (): readonly Pod[] => {
    const set = podSetOf({ spec: { replicas: 1 } });
    sets.set(set);
    const all = ['a', 'b', 'c'].map((name) => podOf(set, name));
    // The first to go, and then the second.
    const [a, b, c] = [all[0] as Pod, all[1] as Pod, all[2] as Pod];
    const cost = (text: string) => ({ annotations: { 'controller.kubernetes.io/pod-deletion-cost': text } });
    const dear = [
      a,
      { ...b, metadata: { ...b.metadata, ...cost('1') } },
      { ...c, metadata: { ...c.metadata, ...cost('2') } },
    ];
    for (const pod of dear) pods.set(pod);
    return dear;
  };

  test('are deleted by uid and in order, except pods that are being deleted or have another owner', async () => {
    const [a, b, c] = three() as [Pod, Pod, Pod];
    pods.set({ ...a, metadata: { ...a.metadata, resourceVersion: '7', deletionTimestamp: creationTimestamp } });
    const reference = { apiVersion: 'v1', kind: 'ConfigMap', name: 'c', uid: 'other', controller: true };
    pods.set({ ...a, metadata: { ...a.metadata, name: 'foreign', uid: 'f', ownerReferences: [reference] } });
    const outcome = reconcile();
    const request = await removal('b');
    expect(request.body).toMatchObject({ preconditions: { uid: 'uid-b' } });
    request.json(200, leaving(b));
    expect((await reported()).status.podNames).toEqual([c.metadata.name]);
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test('that are already gone are not reported as deleted', async () => {
    const [, b] = three() as [Pod, Pod, Pod];
    const outcome = reconcile();
    (await removal('a')).refuse(404, 'NotFound');
    (await removal('b')).json(200, leaving(b));
    expect((await reported()).status.podNames).toEqual(['c']);
    expect(await outcome).toEqual(done);
    expect(world.log.lines.map(({ message }) => message)).toContain('deleted b');
  });

  test('are deleted even if one deletion is refused, and the refusal is reported', async () => {
    const [, b] = three() as [Pod, Pod, Pod];
    const outcome = reconcile();
    (await removal('a')).refuse(403, 'Forbidden', { message: 'protected' });
    (await removal('b')).json(200, leaving(b));
    const { reason, message, status } = await reported();
    expect([reason, message, status.podNames]).toEqual(['RemovalRefused', 'protected', ['a', 'c']]);
    expect(await outcome).toMatchObject({ type: 'retry', error: { code: 403 } });
    expect(server.unclaimed).toBe(0);
  });

  test.each([
    [403, 'Forbidden', 'RemovalRefused'],
    [500, 'InternalError', 'ScalingDown'],
  ])(
    'are deleted even if the deletion of more pods than one batch has fails with %d',
    async (code, error, expected) => {
      const set = podSetOf({ spec: { replicas: 10 } });
      sets.set(set);
      for (let index = 0; index < 32; index += 1) pods.set(podOf(set, `protected-${index}`, { phase: 'Pending' }));
      for (let index = 0; index < 28; index += 1) pods.set(podOf(set, `p-${index}`));
      const outcome = reconcile();
      for (let index = 0; index < 32; index += 1) {
        const request = await server.next({ method: 'DELETE' });
        expect(request.path).toContain('protected-');
        request.refuse(code, error, { message: 'protected' });
      }
      await reported();
      await outcome;
      expect(server.unclaimed).toBe(0);

      // The retry tries the 18 others of the 50 surplus pods first.
      const again = reconcile();
      const deleted: string[] = [];
      for (let index = 0; index < 50; index += 1) {
        const request = await server.next({ method: 'DELETE' });
        if (request.path.includes('protected-')) request.refuse(code, error, { message: 'protected' });
        else {
          const name = request.path.split('/').at(-1) ?? '';
          deleted.push(name);
          request.json(200, leaving(podOf(set, name)));
        }
      }
      const { reason, status } = await reported();
      expect([reason, status.replicas, deleted.length]).toEqual([expected, 42, 18]);
      await again;
    },
  );

  test('whose deletion a failing webhook refuses stay, and another is deleted: that request is not in flight', async () => {
    const message = 'Internal error occurred: failed calling webhook "w.example.com": no route to host';
    const [, b, c] = three() as [Pod, Pod, Pod];
    const outcome = reconcile();
    (await removal('a')).refuse(500, 'InternalError', { message });
    (await removal('b')).json(200, leaving(b));
    expect((await reported()).reason).toBe('RemovalRefused');
    await outcome;

    // The webhook protects only this pod, and the request is not in flight.
    pods.delete(b);
    pods.set({ ...c, metadata: { ...c.metadata, resourceVersion: '8' }, status: { phase: 'Pending' } });
    const again = reconcile();
    (await removal('c')).json(200, leaving(c));
    expect((await reported()).status.podNames).toEqual(['a']);
    await again;
    expect(server.unclaimed).toBe(0);
  });

  test('whose deletion had no answer are deleted first, because that request may still be in flight', async () => {
    const [a, b, c] = three() as [Pod, Pod, Pod];
    const outcome = reconcile();
    (await removal('b')).json(200, leaving(b));
    (await removal('a')).cut();
    expect((await reported()).status.podNames).toEqual(['a', 'c']);
    expect(await outcome).toBeInstanceOf(NoResponseError);

    // Now another would come first.
    pods.delete(b);
    pods.set({ ...c, metadata: { ...c.metadata, resourceVersion: '8' }, status: { phase: 'Pending' } });
    const again = reconcile();
    (await removal('a')).json(200, leaving(a));
    expect((await reported()).status.podNames).toEqual(['c']);
    expect(await again).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test('whose deletion had no answer stay first if a retry did not try them', async () => {
    const set = podSetOf({ spec: { replicas: 0 } });
    sets.set(set);
    for (let index = 0; index < 40; index += 1) pods.set(podOf(set, `web-pod-${index}`));
    const anyRemoval = (): Promise<Exchange> => server.next({ method: 'DELETE' });
    const outcome = reconcile();
    // One deletion succeeds, so the second batch follows.
    (await anyRemoval()).json(200, leaving(podOf(set, 'web-pod-0')));
    const unanswered: string[] = [];
    for (let index = 1; index < 40; index += 1) {
      const request = await anyRemoval();
      unanswered.push(request.path);
      request.refuse(500, 'InternalError');
    }
    await reported();
    await outcome;
    // All the retry's first batch fails, so it tries 32 of the 39.
    pods.delete(podOf(set, 'web-pod-0'));
    const retry = reconcile();
    for (let index = 0; index < 32; index += 1) (await anyRemoval()).refuse(500, 'InternalError');
    await reported();
    await retry;
    // A pod that would otherwise be deleted before the others.
    pods.set(podOf(set, 'web-pod-new', { phase: 'Pending' }));
    sets.set(podSetOf({ metadata: { resourceVersion: '7' }, spec: { replicas: 1 } }));
    const again = reconcile();
    const paths: string[] = [];
    for (let index = 0; index < 39; index += 1) {
      const request = await anyRemoval();
      paths.push(request.path);
      request.json(200, leaving(podOf(set, request.path.split('/').at(-1) ?? '')));
    }
    expect(paths.toSorted()).toEqual(unanswered.toSorted());
    await reported();
    expect(await again).toEqual(done);
  });

  test('are deleted up to 500 per reconcile', async () => {
    const set = podSetOf({ spec: { replicas: 0 } });
    sets.set(set);
    for (let index = 0; index < 510; index += 1) pods.set(podOf(set, `p-${index}`));
    const outcome = reconcile();
    for (let removed = 0; removed < 500; removed += 1)
      (await server.next({ method: 'DELETE' })).refuse(404, 'NotFound');
    const { reason, status } = await reported();
    expect([reason, status.replicas]).toEqual(['ScalingDown', 10]);
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });
});

describe('another template', () => {
  const before = podSetOf({ spec: { replicas: 2, ...images('one') } });
  const after = podSetOf({ metadata: { generation: 2 }, spec: { replicas: 2, ...images('two') } });
  const trial = async (): Promise<Exchange> => {
    const request = await asked();
    expect(request.query.get('dryRun')).toBe('All');
    expect(request.body).toMatchObject({ spec: { containers: [{ image: 'two' }] } });
    return request;
  };
  beforeEach(() => {
    sets.set(after);
  });

  test('is validated by a dry run before it replaces a pod', async () => {
    const [a, b] = [podOf(before, 'a'), podOf(before, 'b')];
    pods.replace([a, b]);
    const outcome = reconcile();
    (await trial()).json(201, podOf(after, 'x'));
    const request = await server.next({ method: 'DELETE' });
    request.json(200, leaving(a));
    const { reason, status } = await reported();
    expect([reason, status.replicas, status.updatedReplicas]).toEqual(['RollingOut', 1, 0]);
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test.each([
    ['with a typo', 400, 'Pod in version "v1" cannot be handled as a Pod: strict decoding error', 'InvalidTemplate'],
    ['that a policy forbids', 403, 'violates PodSecurity "restricted:latest"', 'PodRefused'],
  ])('%s costs no pod', async (_, code, message, reason) => {
    pods.replace([podOf(before, 'a'), podOf(before, 'b')]);
    const outcome = reconcile();
    (await trial()).refuse(code, 'BadRequest', { message });
    const report = await reported();
    expect([report.reason, report.status.readyReplicas]).toEqual([reason, 2]);
    expect(await outcome).toMatchObject({ type: 'retry', error: { code } });
    expect(server.unclaimed).toBe(0);
  });

  test.each([
    ['in a quota that its pods fill', 403, exceeded.message],
    ['under a webhook that cannot be tried', 400, 'admission webhook "w" does not support dry run'],
  ])('%s is still rolled out', async (_, code, message) => {
    const [a, b] = [podOf(before, 'a'), podOf(before, 'b')];
    pods.replace([a, b]);
    const outcome = reconcile();
    (await trial()).refuse(code, 'Forbidden', { message });
    (await server.next({ method: 'DELETE' })).json(200, leaving(a));
    await reported();
    expect(await outcome).toEqual(done);
  });

  test('is rolled out to the other pods if the deletion of one is refused', async () => {
    const [a, b] = [podOf(before, 'a'), podOf(before, 'b')];
    pods.replace([a, b]);
    const outcome = reconcile();
    (await trial()).json(201, podOf(after, 'x'));
    const refused = await server.next({ method: 'DELETE' });
    refused.refuse(403, 'Forbidden', { message: 'protected' });
    expect((await reported()).reason).toBe('RemovalRefused');
    expect(await outcome).toMatchObject({ type: 'retry', error: { code: 403 } });
    const other = refused.path.endsWith('/a') ? b : a;

    const again = reconcile();
    (await trial()).json(201, podOf(after, 'x'));
    (await removal(other.metadata.name)).json(200, leaving(other));
    await reported();
    expect(await again).toEqual(done);

    // Once all others are replaced, the refused pod is tried again.
    pods.delete(other);
    pods.set(podOf(after, 'x'));
    const last = reconcile();
    const retried = await server.next({ method: 'DELETE' });
    expect(retried.path).toBe(refused.path);
    retried.json(200, leaving(other === a ? b : a));
    await reported();
    expect(await last).toEqual(done);
  });

  test('is not validated again if one of its pods exists', async () => {
    const old = podOf(before, 'a');
    pods.replace([old, podOf(after, 'b')]);
    const outcome = reconcile();
    (await removal('a')).json(200, leaving(old));
    await reported();
    expect(await outcome).toEqual(done);
  });

  test.each([
    ['ready', true],
    ['not ready for a moment', false],
  ])('whose first pod is not ready costs no other, though that is %s', async (_, ready) => {
    pods.replace([podOf(before, 'a', { ready }), podOf(after, 'b', { ready: false })]);
    const outcome = reconcile();
    expect((await reported()).reason).toBe('RollingOut');
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test('that corrects a broken one replaces the broken pod first', async () => {
    const broken = podOf(before, 'b', { ready: false });
    pods.replace([podOf(podSetOf({ spec: images('zero') }), 'a'), broken]);
    const outcome = reconcile();
    (await trial()).json(201, podOf(after, 'x'));
    (await removal('b')).json(200, leaving(broken));
    await reported();
    expect(await outcome).toEqual(done);
  });

  test('in a full quota with a missing pod, replaces a pod only if that is not ready', async () => {
    const broken = podOf(before, 'b', { ready: false });
    const wanted = podSetOf({ ...after, spec: { ...after.spec, replicas: 3 } });
    sets.set(podSetOf({ ...wanted, metadata: { ...wanted.metadata, resourceVersion: '7' } }));
    pods.replace([podOf(before, 'a'), broken]);
    const outcome = reconcile();
    (await asked()).refuse(403, 'Forbidden', exceeded);
    (await removal('b')).json(200, leaving(broken));
    expect((await reported()).reason).toBe('PodRefused');
    await outcome;

    pods.delete(broken);
    const again = reconcile();
    (await asked()).refuse(403, 'Forbidden', exceeded);
    await reported();
    await again;
    expect(server.unclaimed).toBe(0);
  });

  test('does not replace adopted pods, which do not count as updated', async () => {
    const { labels } = podOf(before, 'a').metadata;
    const adopted = ['a', 'b'].map((name) =>
      podOf(before, name, { metadata: { labels: { app: labels?.app ?? '', version: 'v0.1' } } }),
    );
    pods.replace(adopted);
    const outcome = reconcile();
    const { reason, status } = await reported();
    expect([reason, status.replicas, status.updatedReplicas]).toEqual(['PodsReady', 2, 0]);
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });
});

describe('pods that have ended', () => {
  const set = podSetOf();
  const ended = (name: string, minute: number, lastedSeconds = 1): Pod => {
    const made = Date.parse(creationTimestamp) + minute * 60_000;
    const [at, until] = [new Date(made).toISOString(), new Date(made + lastedSeconds * 1000).toISOString()];
    return podOf(set, name, { phase: 'Failed', readySince: until, metadata: { creationTimestamp: at } });
  };
  const nowMinute = (): number => (Date.now() - Date.parse(creationTimestamp)) / 60_000;
  beforeEach(() => {
    sets.set(set);
  });

  test('are replaced', async () => {
    pods.replace([ended('a', 0)]);
    const outcome = reconcile();
    await makes(set);
    expect((await reported()).status.replicas).toBe(1);
    expect(await outcome).toEqual(done);
  });

  test('early are reported with the reason of the youngest', async () => {
    const evicted = ended('b', nowMinute());
    const status = { ...evicted.status, reason: 'OutOfcpu', message: 'Node has not enough cpu' };
    pods.replace([ended('a', nowMinute() - 5), { ...evicted, status }]);
    const outcome = reconcile();
    expect((await reported()).message).toBe(
      '2 pods in a row have ended within ten minutes: the next one is created after 10 s; pod b: OutOfcpu: Node has not enough cpu',
    );
    await outcome;
  });

  test('early are reported', async () => {
    sets.set(podSetOf({ status: statusWith('PodsNotReady') }));
    pods.replace([ended('a', nowMinute() - 5), ended('b', nowMinute())]);
    const outcome = reconcile();
    expect((await reported()).reason).toBe('PodsEndEarly');
    await outcome;
  });

  test('in a row, early and recently, are replaced after a pause', async () => {
    pods.replace([ended('a', nowMinute() - 9), ended('b', nowMinute() - 5), ended('c', nowMinute())]);
    const outcome = reconcile();
    const { reason, message } = await reported();
    expect([reason, message]).toEqual([
      'PodsEndEarly',
      '3 pods in a row have ended within ten minutes: the next one is created after 40 s',
    ]);
    const result = (await outcome) as Result & { type: 'requeueAfter' };
    expect(result.type).toBe('requeueAfter');
    expect(result.delayMs).toBeGreaterThan(20_000);
    expect(result.delayMs).toBeLessThanOrEqual(40_000);
    expect(server.unclaimed).toBe(0);
  });

  test.each([
    ['early, but long ago', [60, 55, 51], 1],
    ['after they had been ready for long', [17, 16, 15], 900],
  ])('%s, are replaced at once', async (_, minutesAgo, lasted) => {
    pods.replace(minutesAgo.map((minutes, index) => ended(`p-${index}`, nowMinute() - minutes, lasted)));
    const outcome = reconcile();
    await makes(set);
    await reported();
    expect(await outcome).toEqual(done);
  });

  test('of another template cause no pause', async () => {
    pods.replace([ended('a', nowMinute() - 1), ended('b', nowMinute())]);
    const mended = podSetOf({ metadata: { generation: 2, resourceVersion: '7' }, spec: images('two') });
    sets.set(mended);
    const outcome = reconcile();
    await makes(mended);
    await reported();
    expect(await outcome).toEqual(done);
  });

  test('are kept for their logs, up to five; older ones are deleted', async () => {
    pods.replace([podOf(set, 'running'), ...Array.from({ length: 7 }, (_, index) => ended(`p-${index}`, index))]);
    const outcome = reconcile();
    (await removal('p-0')).refuse(404, 'NotFound');
    (await removal('p-1')).refuse(404, 'NotFound');
    expect((await reported()).reason).toBe('PodsReady');
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test('without an owner are not adopted', async () => {
    pods.replace([{ ...ended('a', 0), metadata: { ...ended('a', 0).metadata, ownerReferences: [] } }]);
    const outcome = reconcile();
    await makes(set);
    await reported();
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });
});

describe('a pod without an owner', () => {
  const orphan = (set: PodSet): Pod => podOf(set, 'orphan', { metadata: { ownerReferences: [] } });

  test('is reported if its adoption is refused, and another pod is created', async () => {
    const set = podSetOf();
    sets.set(set);
    pods.set(orphan(set));
    const outcome = reconcile();
    (await server.next({ method: 'GET', path: setPath })).json(200, set);
    (await server.next({ method: 'GET', path: `${podsPath}/orphan` })).json(200, orphan(set));
    (await server.next({ method: 'PATCH', path: `${podsPath}/orphan` })).refuse(403, 'Forbidden', { message: 'no' });
    await makes(set);
    const { reason, message, status } = await reported();
    expect([reason, message, status.replicas]).toEqual(['AdoptionRefused', 'no', 1]);
    expect(await outcome).toMatchObject({ type: 'retry', error: { code: 403 } });
  });

  test('is not adopted while the PodSet may not be read; the status still counts the pods that are ours', async () => {
    const set = podSetOf({ spec: { replicas: 2 } });
    sets.set(set);
    pods.replace([
      podOf(set, 'a'),
      podOf(set, 'b', { ready: false }),
      podOf(set, 'c', { phase: 'Failed' }),
      orphan(set),
      podOf(podSetOf({ metadata: { uid: 'other' } }), 'other'),
    ]);
    const outcome = reconcile();
    (await server.next({ method: 'GET', path: setPath })).refuse(403, 'Forbidden', { message: 'no' });
    expect(await reported()).toMatchObject({
      reason: 'Refused',
      message: expect.stringContaining('podsets/web: no'),
      status: { replicas: 2, readyReplicas: 1, updatedReplicas: 2, podNames: ['a', 'b'] },
    });
    expect(await outcome).toMatchObject({ type: 'retry', error: { code: 403 } });
  });

  test('that has changed meanwhile is read again before anything else, because it may be ours', async () => {
    const set = podSetOf();
    sets.set(set);
    pods.set(orphan(set));
    const outcome = reconcile();
    (await server.next({ method: 'GET', path: setPath })).json(200, set);
    (await server.next({ method: 'GET', path: `${podsPath}/orphan` })).json(200, orphan(set));
    (await server.next({ method: 'PATCH', path: `${podsPath}/orphan` })).refuse(409, 'Conflict');
    expect(await outcome).toMatchObject({ code: 409 });
    expect(server.unclaimed).toBe(0);
  });
});

describe('a pod that does not start', () => {
  test.each([
    [
      'is missing',
      podSetOf({ spec: { replicas: 2 } }),
      podSetOf({ spec: { replicas: 2 } }),
      'PodsNotReady',
      '1 of 2 pods are ready',
    ],
    [
      'is of a new template',
      podSetOf({ spec: { replicas: 2, ...images('one') } }),
      podSetOf({ metadata: { generation: 2 }, spec: { replicas: 2, ...images('two') } }),
      'RollingOut',
      '1 of 2 pods are of an earlier template',
    ],
  ])('that %s is named with its problem', async (_, before, set, reason, words) => {
    sets.set(set);
    const waiting = podOf(set, 'b', { ready: false });
    const state = { waiting: { reason: 'ImagePullBackOff', message: 'Back-off pulling image "busybox:nil"' } };
    const container = { name: 'c', image: 'busybox:nil', imageID: '', ready: false, restartCount: 0, state };
    pods.replace([podOf(before, 'a'), { ...waiting, status: { ...waiting.status, containerStatuses: [container] } }]);
    const outcome = reconcile();
    expect(await reported()).toMatchObject({
      reason,
      message: `${words}; pod b: ImagePullBackOff: Back-off pulling image "busybox:nil"`,
    });
    expect(await outcome).toEqual(done);
  });
});

describe('a status that only tells about progress', () => {
  const setWith = (replicas: number, status: NonNullable<PodSet['status']>) =>
    podSetOf({ spec: { replicas, ...images('two') }, status });

  /** Two of three pods are of an earlier template, and this was reported a moment ago. */
  async function reportedProgress(): Promise<PodSet> {
    const set = setWith(3, statusWith('RollingOut'));
    const older = podSetOf({ spec: { replicas: 3, ...images('one') } });
    sets.set(set);
    pods.replace([podOf(older, 'a'), podOf(older, 'b'), podOf(set, 'c', { ready: false })]);
    const first = reconcile();
    expect((await reported()).reason).toBe('RollingOut');
    expect(await first).toEqual(done);
    return set;
  }

  test('waits at most a second for the next one', async () => {
    const set = await reportedProgress();
    pods.replace([podOf(set, 'c', { ready: false, metadata: { resourceVersion: '7' } })]);
    const outcome = reconcile();
    for (let made = 0; made < 2; made += 1) {
      await isCurrent(set);
      await makes(set);
    }
    const { delayMs } = (await outcome) as Result & { type: 'requeueAfter' };
    expect(delayMs).toBeGreaterThan(0);
    expect(delayMs).toBeLessThanOrEqual(1000);
    expect(server.unclaimed).toBe(0);
  });

  test('is written at once when all pods are ready', async () => {
    const set = await reportedProgress();
    pods.replace(['c', 'd', 'e'].map((name) => podOf(set, name, { metadata: { resourceVersion: '7' } })));
    const outcome = reconcile();
    expect((await reported()).reason).toBe('PodsReady');
    expect(await outcome).toEqual(done);
  });

  test('is written at once when a pod of a ready PodSet is no longer ready', async () => {
    const set = await reportedProgress();
    sets.set({ ...set, metadata: { ...set.metadata, resourceVersion: '8' }, status: statusWith('PodsReady', 'True') });
    pods.replace(['c', 'd', 'e'].map((name) => podOf(set, name, { ready: false, metadata: { resourceVersion: '7' } })));
    const outcome = reconcile();
    expect((await reported()).reason).toBe('PodsNotReady');
    expect(await outcome).toEqual(done);
  });

  test('is written at once of another generation', async () => {
    const set = await reportedProgress();
    const { generation } = set.metadata;
    const changed = { ...set, metadata: { ...set.metadata, resourceVersion: '8', generation: generation + 1 } };
    sets.set(changed);
    pods.replace([podOf(set, 'c', { metadata: { resourceVersion: '7' } })]);
    const outcome = reconcile();
    for (let made = 0; made < 2; made += 1) {
      await isCurrent(changed);
      await makes(set);
    }
    expect((await reported()).reason).toBe('PodsNotReady');
    expect(await outcome).toEqual(done);
  });
});

describe('a PodSet', () => {
  test.each([{}, { replicas: 'three' }, undefined])(
    'without replicas is reported, and its pods are not changed: spec %j',
    async (spec) => {
      const set = podSetOf();
      pods.replace([podOf(set, 'a'), podOf(set, 'b', { ready: false })]);
      const { spec: _, ...bare } = set;
      sets.set({ ...bare, ...(spec && { spec }) } as unknown as PodSet);
      const outcome = reconcile();
      const message =
        spec?.replicas === undefined ? 'spec.replicas is missing' : 'spec.replicas is "three", must be integer';
      // The pods go on, so the status still counts and names them.
      const status = { replicas: 2, readyReplicas: 1, podNames: ['a', 'b'] };
      expect(await reported()).toMatchObject({ reason: 'InvalidSpec', message, status });
      expect(await outcome).toEqual(done);
      expect(server.unclaimed).toBe(0);
    },
  );

  test('that lacks another field is reported with its name', async () => {
    sets.set({ ...podSetOf(), spec: { replicas: 1, template: {} } } as unknown as PodSet);
    const outcome = reconcile();
    expect(await reported()).toMatchObject({
      reason: 'InvalidSpec',
      message: 'spec.template.spec is missing',
    });
    expect(await outcome).toEqual(done);
  });

  test('whose template has too many values is reported, and the API server gets no pod to validate', async () => {
    const containers = Array.from({ length: 625 }, (_, index) => ({ name: `A!${index}`, image: 'a', tty: true }));
    // Four values for each container, and the list.
    sets.set(podSetOf({ spec: { replicas: 1, template: { spec: { containers } } } }));
    const outcome = reconcile();
    expect(await reported()).toMatchObject({
      reason: 'InvalidSpec',
      message: 'spec.template.spec has more than 2500 values',
    });
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test.each([
    ['is gone', (request: Exchange) => request.refuse(404, 'NotFound')],
    ['has another spec', (request: Exchange) => request.json(200, podSetOf({ metadata: { generation: 2 } }))],
  ])('that had pods gets no more of them if it %s by now, and the cache is behind', async (_, respond) => {
    sets.set(podSetOf({ spec: { replicas: 3 }, status: statusWith('PodsReady', 'True') }));
    const outcome = reconcile();
    respond(await server.next({ method: 'GET', path: setPath }));
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test('that changes while its pods are created gets no more of them, and an Event names those that it has', async () => {
    const set = podSetOf({ spec: { replicas: 3 }, status: statusWith('PodsNotReady') });
    sets.set(set);
    const outcome = reconcile();
    (await server.next({ method: 'GET', path: setPath })).json(200, set);
    const name = await makes(set);
    (await server.next({ method: 'GET', path: setPath })).json(200, podSetOf({ metadata: { generation: 2 } }));
    expect(await outcome).toEqual(done);
    expect(events).toEqual([`PodsMade created ${name}`]);
    expect(server.unclaimed).toBe(0);
  });

  test('asks once whether it is current for the pods that it creates at the same time', async () => {
    const set = podSetOf({ spec: { replicas: 3 }, status: statusWith('PodsNotReady') });
    sets.set(set);
    const outcome = reconcile();
    await isCurrent(set);
    await makes(set);
    await isCurrent(set);
    await makes(set);
    await makes(set);
    await reported();
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test('that is gone or being deleted is not changed', async () => {
    expect(await reconcile()).toEqual(done);
    sets.set(podSetOf({ metadata: { deletionTimestamp: creationTimestamp } }));
    expect(await reconcile()).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });
});
