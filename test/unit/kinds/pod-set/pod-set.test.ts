import { Pod } from '@echoperator/runtime/kinds';
import type { AdmittedRequest, SimulationOptions } from '@echoperator/testing/simulation';
import { describe, expect, test } from '@jest/globals';
import Type from 'typebox';
import { podSetController } from '../../../../src/kinds/pod-set/controller.ts';
import { PodSet } from '../../../../src/kinds/pod-set/kind.ts';
import { podSettings } from '../../../../testkit/pod-settings.ts';
import { failing, forbidden, KindWorld, type Refusal } from '../../environment/kind-world.ts';

type World = KindWorld<PodSet>;

const run = (body: (world: World) => Promise<unknown>, options: Partial<SimulationOptions> = {}) =>
  KindWorld.run(podSetController(podSettings), PodSet, body, { name: 'web', ...options });

const template = (image: string) => ({ spec: { containers: [{ name: 'c', image }] } });
const labels = { app: 'web', version: 'v0.1' };

const now = (): string => new Date().toISOString().replace(/\.\d+/, '');

/** Plays the kubelet of a pod. */
const becomes = (world: World, pod: Pod, phase: string, ready = phase === 'Running', rest: object = {}) =>
  world.setStatus(Pod, pod, {
    phase,
    conditions: [{ type: 'Ready', status: ready ? 'True' : 'False', lastTransitionTime: now() }],
    ...rest,
  });

const isActive = ({ metadata, status }: Pod): boolean =>
  metadata.deletionTimestamp === undefined && status?.phase !== 'Failed' && status?.phase !== 'Succeeded';
const active = (world: World): readonly Pod[] => world.owned(Pod).filter(isActive);
const namesOf = (pods: readonly Pod[]): readonly string[] => pods.map(({ metadata }) => metadata.name);
const imagesOf = (pods: readonly Pod[]) => pods.map(({ spec }) => spec?.containers[0]?.image).sort();

/** Plays the kubelet until all pods are ready and nothing changes any more. */
async function runAll(world: World): Promise<void> {
  for (;;) {
    const waiting = active(world).filter(({ status }) => status?.phase !== 'Running');
    for (const pod of waiting) await becomes(world, pod, 'Running');
    await world.settle();
    if (waiting.length === 0) break;
  }
  await world.advance(2);
}

/** Applies a spec whose pods become ready. */
async function applied(world: World, spec: object): Promise<readonly Pod[]> {
  await world.apply(spec);
  await runAll(world);
  world.writes.length = 0;
  return active(world);
}

const isCreation = ({ verb, kind }: AdmittedRequest): boolean => verb === 'create' && kind === Pod;
const isDeletion = ({ verb, kind }: AdmittedRequest): boolean => verb === 'delete' && kind === Pod;
const refusing = (is: (request: AdmittedRequest) => boolean, refusal: Refusal) => (request: AdmittedRequest) =>
  is(request) ? refusal : undefined;

/** The names of the pods that the operator has asked to create, or delete. */
const asked = ({ writes }: World, verb: 'create' | 'delete'): readonly string[] =>
  writes.filter((write) => write.startsWith(`${verb} Pod `)).map((write) => write.slice(verb.length + 5));
const statusWrites = ({ writes }: World): number => writes.filter((write) => write.endsWith('/status')).length;

const exceeded = forbidden(
  'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2',
);
const badName = {
  code: 422,
  reason: 'Invalid',
  message: 'spec.containers[0].name: bad',
  details: { causes: [{ reason: 'FieldValueInvalid', field: 'spec.containers[0].name', message: 'bad' }] },
};
const unknownField = {
  code: 400,
  reason: 'BadRequest',
  message: 'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.imagee"',
};

describe('a PodSet', () => {
  test('has the pods that it asks for, and reports them', () =>
    run(async (world) => {
      await world.apply({ replicas: 3 });
      expect([world.reason(), world.message()]).toEqual(['PodsNotReady', '0 of 3 pods are ready']);
      await runAll(world);
      const pods = active(world);
      for (const { metadata } of pods)
        expect(metadata).toMatchObject({ name: expect.stringMatching(/^web-pod-\w{5}$/), labels });
      expect(world.status).toMatchObject({
        ...{ replicas: 3, readyReplicas: 3, updatedReplicas: 3, selector: 'app=web,version=v0.1' },
        podNames: namesOf(pods).toSorted(),
      });
      expect([world.reason(), world.message()]).toEqual(['PodsReady', '3 of 3 pods are ready']);
      await world.client.delete(Pod, pods[0]!.metadata);
      await world.settle();
      expect(active(world)).toHaveLength(3);
      await applied(world, { replicas: 0 });
      expect([world.reason(), world.status.podNames]).toEqual(['PodsReady', []]);
    }));

  test('names at most three pods in an Event', () =>
    run(async (world) => {
      await world.apply({ replicas: 20 });
      expect(world.notes('PodsMade')).toEqual([
        expect.stringMatching(/^created (web-pod-\w{5}, ){2}web-pod-\w{5} and 17 more$/),
      ]);
      await world.apply({ replicas: 19 });
      expect(world.notes('PodsRemoved')).toEqual([expect.stringMatching(/^deleted web-pod-\w{5}$/)]);
    }));

  test('names a pod that does not start, at once or after a minute, which no event tells', () =>
    run(async (world) => {
      await applied(world, { replicas: 1 });
      await world.apply({ replicas: 2 });
      const pod = active(world).find(({ status }) => status?.phase === 'Pending')!;
      const why = `1 of 2 pods are ready; pod ${pod.metadata.name}: `;
      await world.advance(70);
      expect(world.message()).toContain(`${why}not started since ${pod.metadata.creationTimestamp} (kubectl`);
      const state = { waiting: { reason: 'ImagePullBackOff', message: 'Back-off' } };
      const container = { name: 'c', image: 'busybox:nil', imageID: '', ready: false, restartCount: 0, state };
      await becomes(world, pod, 'Pending', false, { containerStatuses: [container] });
      await world.advance(2);
      expect(world.message()).toBe(`${why}ImagePullBackOff: Back-off pulling image "busybox:nil"`);
      await becomes(world, pod, 'Running', true, { containerStatuses: null });
      await world.settle();
      expect(world.reason()).toBe('PodsReady');
    }));

  test('whose template has too many values is reported, and the API server gets no pod to validate', () =>
    run(async (world) => {
      // Four values for each container, and the list.
      const containers = Array.from({ length: 625 }, (_, index) => ({ name: `A!${index}`, image: 'a', tty: true }));
      await world.apply({ replicas: 1, template: { spec: { containers } } });
      expect([world.reason(), world.message()]).toEqual([
        'InvalidSpec',
        'spec.template.spec has more than 2500 values',
      ]);
      expect(asked(world, 'create')).toEqual([]);
    }));

  test('reports progress once a second, and at once what is no progress', () =>
    run(async (world) => {
      await applied(world, { replicas: 5, template: template('one') });
      await world.apply({ replicas: 5, template: template('two') });
      world.writes.length = 0;
      const startedAtMs = world.simulation.nowMs;
      for (let pod = 0; pod < 4; pod += 1) {
        const pending = active(world).filter(({ status }) => status?.phase === 'Pending');
        for (const each of pending) await becomes(world, each, 'Running');
        await world.settle();
      }
      expect(world.simulation.nowMs - startedAtMs).toBeLessThan(1000);
      expect(asked(world, 'delete').length).toBeGreaterThan(2);
      expect(statusWrites(world)).toBe(0);
      await world.advance(1);
      expect(statusWrites(world)).toBe(1);
      await runAll(world);
      expect(world.status).toMatchObject({ updatedReplicas: 5, readyReplicas: 5 });
      world.writes.length = 0;
      const [first] = active(world);
      await becomes(world, first!, 'Running', false);
      await world.settle();
      expect([world.reason(), statusWrites(world)]).toEqual(['PodsNotReady', 1]);
      await becomes(world, first!, 'Running');
      await world.settle();
      expect([world.reason(), statusWrites(world)]).toEqual(['PodsReady', 2]);
    }));

  test('that changes while its pods are created gets no more of them, and an Event names those that it has', () =>
    run(async (world) => {
      await applied(world, { replicas: 0 });
      world.refuse = (request) => {
        // Another spec, and then nothing more: the operator's cache does not show it yet.
        if (isCreation(request) && asked(world, 'create').length === 1)
          queueMicrotask(
            () => void world.client.patch(PodSet, world.key, { type: 'merge', body: { spec: { replicas: 1 } } }),
          );
        return undefined;
      };
      await world.apply({ replicas: 9 });
      expect(active(world)).toHaveLength(1);
      expect(asked(world, 'create').length).toBeLessThan(4);
      expect(world.notes('PodsMade')).toEqual([`created ${active(world)[0]?.metadata.name}`]);
    }));

  const { scale: _, ...definition } = PodSet.definition;
  const anySpec = Type.Object({}, { 'x-kubernetes-preserve-unknown-fields': true });
  const loosePodSet = { ...PodSet, definition: { ...definition, spec: anySpec } };

  test.each([
    [{}, 'spec.replicas is missing'],
    [{ replicas: 'three' }, 'spec.replicas is "three", must be integer'],
    [{ replicas: 1, template: {} }, 'spec.template.spec is missing'],
  ])('stored under an older definition as %j is reported, and its pods are counted, and not changed', (spec, message) =>
    run(
      async (world) => {
        const pods = await applied(world, { replicas: 2 });
        await world.client.patch(PodSet, world.key, {
          type: 'json',
          body: [{ op: 'replace', path: '/spec', value: spec }],
        });
        await world.settle();
        expect([world.reason(), world.message()]).toEqual(['InvalidSpec', message]);
        expect(world.status).toMatchObject({ replicas: 2, readyReplicas: 2, podNames: namesOf(pods).toSorted() });
        expect(namesOf(active(world))).toEqual(namesOf(pods));
      },
      { kinds: [loosePodSet] },
    ),
  );
});

describe('a refused pod', () => {
  test('of a full quota is reported with a constant message, and few requests are sent', () =>
    run(async (world) => {
      world.refuse = (request) =>
        isCreation(request) && active(world).length >= 2
          ? forbidden(`pods "${request.object?.metadata.name}" is forbidden: exceeded quota: q`)
          : undefined;
      await world.apply({ replicas: 100 });
      await world.advance(300);
      expect(world.reason()).toBe('PodRefused');
      expect(world.message()).toContain('exceeded quota');
      const tries = asked(world, 'create').length;
      expect(tries).toBeGreaterThan(6);
      expect(tries).toBeLessThan(25);
      expect(statusWrites(world)).toBe(1);
      world.refuse = () => undefined;
      await world.advance(90);
      expect(active(world)).toHaveLength(100);
    }));

  test.each([
    ['for a bad value', badName, 'InvalidTemplate', 'spec.template: spec.containers[0].name: bad'],
    ['for an unknown field', unknownField, 'InvalidTemplate', `spec.template: ${unknownField.message}`],
    [
      'by a webhook',
      { code: 400, reason: 'BadRequest', message: 'denied the request' },
      'PodRefused',
      'denied the request',
    ],
  ])('%s is reported, and tried again: another API server may accept it', (_, refusal, reason, message) =>
    run(async (world) => {
      world.refuse = refusing(isCreation, refusal);
      await world.apply({ replicas: 2 });
      expect([world.reason(), world.message()]).toEqual([reason, message]);
      // It does not keep surplus pods.
      world.refuse = () => undefined;
      await world.advance(90);
      expect([world.reason(), active(world).length]).toEqual(['PodsNotReady', 2]);
      world.refuse = refusing(isCreation, refusal);
      await world.apply({ replicas: 0 });
      expect([world.reason(), active(world).length]).toEqual(['PodsReady', 0]);
    }),
  );

  test('is reported before a refused deletion', () =>
    run(async (world) => {
      for (const pod of await applied(world, { replicas: 7 })) await becomes(world, pod, 'Failed');
      world.refuse = (request) =>
        isCreation(request) ? badName : refusing(isDeletion, forbidden('protected'))(request);
      await world.apply({ replicas: 1, template: template('two') });
      await world.advance(60);
      expect([world.reason(), world.message()]).toEqual([
        'InvalidTemplate',
        'spec.template: spec.containers[0].name: bad',
      ]);
    }));
});

describe('a creation without an answer', () => {
  test('is repeated under its name, because it may still be in flight', () =>
    run(async (world) => {
      let left = 6;
      world.refuse = (request) => (isCreation(request) && left-- > 0 ? failing : undefined);
      await world.apply({ replicas: 1 });
      await world.advance(60);
      expect(asked(world, 'create')).toHaveLength(7);
      expect(new Set(asked(world, 'create'))).toEqual(new Set(namesOf(active(world))));
    }));

  test('is repeated also after a retry that tried only the first of several', () =>
    run(async (world) => {
      world.refuse = (request) => (isCreation(request) && asked(world, 'create').length > 3 ? failing : undefined);
      await world.apply({ replicas: 7 });
      const names = asked(world, 'create').slice(0, 7);
      await world.advance(1);
      world.refuse = () => undefined;
      await world.advance(60);
      expect(namesOf(active(world)).toSorted()).toEqual(names.toSorted());
    }));
});

describe('surplus pods', () => {
  const cost = (world: World, pod: Pod, of: string) => {
    const body = { metadata: { annotations: { 'controller.kubernetes.io/pod-deletion-cost': of } } };
    return world.client.patch(Pod, pod.metadata, { type: 'merge', body });
  };

  /** Three pods, of which the first goes first, and then the second. */
  async function three(world: World): Promise<readonly [Pod, Pod, Pod]> {
    const [a, b, c] = (await applied(world, { replicas: 3 })) as [Pod, Pod, Pod];
    await cost(world, b, '1');
    await cost(world, c, '2');
    await world.settle();
    return [a, b, c];
  }

  test('are deleted in order, except those that terminate or belong to somebody else', () =>
    run(async (world) => {
      const [a, b, c] = await three(world);
      const owner = await world.create(PodSet, { metadata: { ...world.key, name: 'owner' }, spec: { replicas: 0 } });
      const reference = {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        name: 'other',
        uid: owner.metadata.uid,
        controller: true,
      };
      const metadata = {
        ...world.key,
        name: 'foreign',
        labels,
        ownerReferences: [reference],
        finalizers: ['a.example/b'],
      };
      const foreign = await world.create(Pod, { metadata, spec: template('x').spec });
      await world.hold(Pod, a);
      await world.client.delete(Pod, a.metadata);
      await world.settle();
      const [replacement] = active(world).filter(
        (pod) => ![b, c].some(({ metadata }) => metadata.uid === pod.metadata.uid),
      );
      await world.apply({ replicas: 1 });
      expect(asked(world, 'delete').toSorted()).toEqual(
        [replacement!, b].map(({ metadata }) => metadata.name).toSorted(),
      );
      expect(world.status.podNames).toEqual([c.metadata.name]);
      for (const pod of [a, foreign]) await world.hold(Pod, pod, []);
    }));

  test('are deleted even if one deletion is refused, and the refusal is reported', () =>
    run(async (world) => {
      const [a, , c] = await three(world);
      world.refuse = refusing(
        (request) => isDeletion(request) && request.name === a.metadata.name,
        forbidden('protected'),
      );
      await world.apply({ replicas: 1 });
      expect([world.reason(), world.message()]).toEqual(['RemovalRefused', 'protected']);
      expect(world.status.podNames).toEqual(namesOf([a, c]).toSorted());
    }));

  test.each([
    [forbidden('protected'), 'RemovalRefused'],
    [failing, 'ScalingDown'],
  ])('are deleted even if the deletion of more pods than one batch has fails: %j', (refusal, reason) =>
    run(async (world) => {
      const pods = await applied(world, { replicas: 34 });
      // They go first.
      const guarded = new Set(namesOf(pods.slice(0, 32)));
      for (const pod of pods.slice(0, 32)) await becomes(world, pod, 'Pending', false);
      world.refuse = refusing((request) => isDeletion(request) && guarded.has(request.name ?? ''), refusal);
      await world.apply({ replicas: 1 });
      await world.advance(1);
      expect([world.reason(), active(world).length]).toEqual([reason, 33]);
    }),
  );

  test('whose deletion a failing webhook refuses stay, and another is deleted: that request is not in flight', () =>
    run(async (world) => {
      const [a, , c] = await three(world);
      const message = 'Internal error occurred: failed calling webhook "w.example.com": no route to host';
      const refusal = { code: 500, reason: 'InternalError', message };
      world.refuse = refusing((request) => isDeletion(request) && request.name === a.metadata.name, refusal);
      await world.apply({ replicas: 1 });
      expect(world.reason()).toBe('RemovalRefused');
      await becomes(world, c, 'Pending');
      await world.settle();
      expect(namesOf(active(world))).toEqual([a.metadata.name]);
    }));

  test('whose deletion had no answer are deleted first, because that request may still be in flight', () =>
    run(async (world) => {
      const [a, , c] = await three(world);
      world.refuse = refusing((request) => isDeletion(request) && request.name === a.metadata.name, failing);
      await world.apply({ replicas: 1 });
      world.refuse = () => undefined;
      // Now another would go first.
      await becomes(world, c, 'Pending');
      await world.settle();
      expect(namesOf(active(world))).toEqual([c.metadata.name]);
    }));

  test('whose deletion had no answer stay first if a retry did not try them', () =>
    run(async (world) => {
      await applied(world, { replicas: 40 });
      // One deletion succeeds, so the second batch follows. All the retry's first batch fails, so it tries 32 of the
      // 38.
      world.refuse = (request) => (isDeletion(request) && asked(world, 'delete').length > 1 ? failing : undefined);
      await world.apply({ replicas: 1 });
      await world.advance(0.02);
      const tries = asked(world, 'delete');
      expect(tries.length).toBeGreaterThan(39 + 31);
      const kept = active(world).filter(({ metadata }) => !tries.includes(metadata.name));
      // It would otherwise be deleted before the others.
      await becomes(world, kept[0]!, 'Pending');
      world.refuse = () => undefined;
      await world.settle();
      expect(namesOf(active(world))).toEqual(namesOf(kept));
    }));
});

describe('another template', () => {
  const before = { replicas: 2, template: template('one') };
  const after = { replicas: 2, template: template('two') };

  test('replaces the pods one after the other, each when those of the new template are ready', () =>
    run(async (world) => {
      await applied(world, before);
      await world.apply(after);
      expect(imagesOf(active(world))).toEqual(['one', 'two']);
      await world.advance(30);
      expect(imagesOf(active(world))).toEqual(['one', 'two']);
      expect([world.reason(), world.message()]).toEqual(['RollingOut', '1 of 2 pods are of an earlier template']);
      // Nor does it cost the other pod if that is not ready for a moment.
      await becomes(world, active(world).find(({ spec }) => spec?.containers[0]?.image === 'one')!, 'Running', false);
      await world.settle();
      expect(imagesOf(active(world))).toEqual(['one', 'two']);
      await runAll(world);
      expect(imagesOf(active(world))).toEqual(['two', 'two']);
      expect(asked(world, 'delete')).toHaveLength(2);
      // The dry run, and two pods.
      expect(asked(world, 'create')).toHaveLength(3);
    }));

  test.each([
    ['with a typo', unknownField, 'InvalidTemplate'],
    ['that a policy forbids', forbidden('violates PodSecurity "restricted:latest"'), 'PodRefused'],
  ])('%s costs no pod', (_, refusal, reason) =>
    run(async (world) => {
      await applied(world, before);
      world.refuse = refusing(isCreation, refusal);
      await world.apply(after);
      expect([world.reason(), world.status.readyReplicas, asked(world, 'delete')]).toEqual([reason, 2, []]);
      expect(new Set(asked(world, 'create')).size).toBe(1);
    }),
  );

  test.each([
    ['in a quota that its pods fill', exceeded],
    [
      'under a webhook that cannot be tried',
      { code: 400, reason: 'BadRequest', message: 'webhook "w" does not support dry run' },
    ],
  ])('%s is still rolled out', (_, refusal) =>
    run(async (world) => {
      await applied(world, before);
      world.refuse = (request) => (isCreation(request) && active(world).length === 2 ? refusal : undefined);
      await world.apply(after);
      await runAll(world);
      expect(imagesOf(active(world))).toEqual(['two', 'two']);
    }),
  );

  test('is rolled out to the other pods if the deletion of one is refused, which is tried again last', () =>
    run(async (world) => {
      await applied(world, before);
      let guarded: string | undefined;
      world.refuse = (request) => {
        if (!isDeletion(request)) return undefined;
        guarded ??= request.name;
        return request.name === guarded ? forbidden('protected') : undefined;
      };
      await world.apply(after);
      expect(world.reason()).toBe('RemovalRefused');
      await world.advance(1);
      await runAll(world);
      expect(imagesOf(active(world))).toEqual(['one', 'two']);
      world.refuse = () => undefined;
      await world.advance(90);
      await runAll(world);
      expect(imagesOf(active(world))).toEqual(['two', 'two']);
    }));

  test('that corrects a broken one replaces the broken pod first', () =>
    run(async (world) => {
      await applied(world, { ...before, template: template('zero') });
      await world.apply(before);
      const broken = active(world).find(({ spec }) => spec?.containers[0]?.image === 'one');
      world.writes.length = 0;
      await world.apply(after);
      expect(asked(world, 'delete')).toEqual([broken?.metadata.name]);
    }));

  test('in a full quota with a missing pod, replaces a pod only if that is not ready', () =>
    run(async (world) => {
      const [ready, broken] = await applied(world, before);
      await becomes(world, broken!, 'Running', false);
      world.refuse = refusing(isCreation, exceeded);
      await world.apply({ ...after, replicas: 3 });
      await world.advance(60);
      expect([world.reason(), asked(world, 'delete')]).toEqual(['PodRefused', [broken?.metadata.name]]);
      expect(namesOf(active(world))).toEqual([ready?.metadata.name]);
    }));

  test('does not replace adopted pods, which do not count as updated', () =>
    run(async (world) => {
      const pod = await world.create(Pod, {
        metadata: { ...world.key, name: 'adopted', labels },
        spec: template('x').spec,
      });
      await becomes(world, pod, 'Running');
      await world.apply({ ...after, replicas: 1 });
      expect(world.status).toMatchObject({ replicas: 1, updatedReplicas: 0, podNames: ['adopted'] });
      expect(world.reason()).toBe('PodsReady');
    }));
});

describe('pods that have ended', () => {
  /** Ends the pods that there are. */
  async function endAll(world: World, status: object = {}): Promise<void> {
    for (const pod of active(world)) await becomes(world, pod, 'Failed', false, status);
    await world.settle();
  }

  test('are replaced: one at once, those that end early after ever longer pauses', () =>
    run(async (world) => {
      await applied(world, { replicas: 1 });
      await endAll(world);
      expect(active(world)).toHaveLength(1);
      await endAll(world, { reason: 'OutOfcpu', message: 'Node has not enough cpu' });
      const [youngest] = world
        .owned(Pod)
        .toSorted((one, other) => (one.metadata.creationTimestamp < other.metadata.creationTimestamp ? 1 : -1));
      expect([world.reason(), world.message()]).toEqual([
        'PodsEndEarly',
        `2 pods in a row have ended within ten minutes: the next one is created after 10 s; pod ${youngest?.metadata.name}: OutOfcpu: Node has not enough cpu`,
      ]);
      await world.advance(8);
      expect(active(world)).toHaveLength(0);
      await world.advance(4);
      expect(active(world)).toHaveLength(1);
      await world.advance(1);
      await endAll(world);
      expect(world.message()).toContain(
        '3 pods in a row have ended within ten minutes: the next one is created after 40 s',
      );
      // Pods of another template have another fate.
      await world.apply({ replicas: 1, template: template('two') });
      expect(active(world)).toHaveLength(1);
    }));

  test('after they had been ready for long are replaced at once', () =>
    run(async (world) => {
      for (let round = 0; round < 3; round += 1) {
        await applied(world, { replicas: 1 });
        await world.advance(900);
        await endAll(world);
        expect(active(world)).toHaveLength(1);
      }
    }));

  test('are kept for their logs, up to five; older ones are deleted', () =>
    run(async (world) => {
      for (let round = 0; round < 7; round += 1) {
        await applied(world, { replicas: 1 });
        await world.advance(900);
        await endAll(world);
      }
      await applied(world, { replicas: 1 });
      const ended = world.owned(Pod).filter((pod) => !isActive(pod));
      expect([ended.length, active(world).length, world.reason()]).toEqual([5, 1, 'PodsReady']);
    }));

  test('without an owner are not adopted', () =>
    run(async (world) => {
      const pod = await world.create(Pod, {
        metadata: { ...world.key, name: 'ended', labels },
        spec: template('x').spec,
      });
      await becomes(world, pod, 'Failed');
      await world.apply({ replicas: 1 });
      expect(namesOf(active(world))).not.toContain('ended');
      expect(world.owned(Pod)).toHaveLength(1);
    }));
});

describe('a pod without an owner', () => {
  const orphan = (world: World, metadata: object = {}) =>
    world.create(Pod, { metadata: { ...world.key, name: 'orphan', labels, ...metadata }, spec: template('x').spec });

  test('is adopted if it has the labels, and released without them', () =>
    run(async (world) => {
      await orphan(world);
      await world.apply({ replicas: 2 });
      expect(namesOf(active(world))).toContain('orphan');
      expect(active(world)).toHaveLength(2);
      await world.client.patch(
        Pod,
        { ...world.key, name: 'orphan' },
        { type: 'merge', body: { metadata: { labels: { app: 'else' } } } },
      );
      await world.settle();
      expect(namesOf(active(world))).not.toContain('orphan');
      expect(active(world)).toHaveLength(2);
      const released = world.simulation.objects(Pod).find(({ metadata }) => metadata.name === 'orphan');
      expect(released?.metadata.ownerReferences ?? []).toEqual([]);
    }));

  test('is reported if its adoption is refused, and another pod is created', () =>
    run(async (world) => {
      world.refuse = refusing(({ verb, kind }) => verb === 'patch' && kind === Pod, forbidden('no'));
      await orphan(world);
      await world.apply({ replicas: 1 });
      expect([world.reason(), world.message(), world.status.replicas]).toEqual(['AdoptionRefused', 'no', 1]);
      expect(active(world)).toHaveLength(1);
    }));

  test('is not adopted while the PodSet may not be read; the status still counts the pods that are ours', () =>
    run(async (world) => {
      const pods = await applied(world, { replicas: 2 });
      world.refuse = refusing(({ verb, kind }) => verb === 'get' && kind === PodSet, forbidden('no'));
      await orphan(world);
      await world.settle();
      expect(world.reason()).toBe('Refused');
      expect(world.message()).toContain('podsets/web: no');
      expect(world.status).toMatchObject({ replicas: 2, podNames: namesOf(pods).toSorted() });
    }));
});
