import { execFile } from 'node:child_process';
import fs from 'node:fs';
import { connect } from 'node:net';
import { defineController, defineKind } from '@echoperator/runtime';
import { ConfigMap, CustomResourceDefinition, Deployment, Event, Job, Pod } from '@echoperator/runtime/kinds';
import {
  jobController,
  NotSimulatedError,
  type Simulation,
  type SimulationOptions,
  simulate,
} from '@echoperator/testing/simulation';
import { describe, expect, test } from '@jest/globals';
import Type from 'typebox';

const Greeting = defineKind({
  group: 'example.com',
  version: 'v1',
  kind: 'Greeting',
  plural: 'greetings',
  description: 'Greeting maintains a ConfigMap of the same name that greets somebody.',
  spec: Type.Object({ who: Type.String({ description: 'Who is greeted.' }) }),
  status: Type.Object({}),
});

const greetings = defineController(Greeting, {
  owns: [ConfigMap],
  reasons: { Written: { ready: 'True', event: 'Normal', meaning: 'The ConfigMap has the greeting.' } },
  reconcile: async ({ metadata, spec }, { apply }) => {
    await apply(ConfigMap, { data: { text: `Hello, ${spec.who}!` } });
    return { reason: 'Written', message: `ConfigMap ${metadata.name} greets ${spec.who}` };
  },
});

const key = { namespace: 'default', name: 'world' };

const greet = ({ client }: Simulation, who = 'world') => client.create(Greeting, { metadata: key, spec: { who } });

const conditionOf = (simulation: Simulation) => simulation.objects(Greeting)[0]?.status?.conditions?.[0];

const run = <R>(test: (simulation: Simulation) => Promise<R>, options: Partial<SimulationOptions> = {}): Promise<R> =>
  simulate({ controllers: [greetings], ...options }, test);

describe('an operator', () => {
  test('does its work, restores it, and its objects go with their owner', () =>
    run(async (simulation) => {
      const { client } = simulation;
      await greet(simulation);
      await simulation.settle();
      expect(simulation.objects(ConfigMap)).toMatchObject([{ data: { text: 'Hello, world!' } }]);
      expect(conditionOf(simulation)).toMatchObject({ status: 'True', reason: 'Written' });
      await client.delete(ConfigMap, key);
      await simulation.settle();
      expect(simulation.objects(ConfigMap)).toHaveLength(1);
      await client.delete(Greeting, key);
      await simulation.settle();
      expect(simulation.objects(ConfigMap)).toEqual([]);
    }));

  test('reports what the server refuses, and tries again when time passes', async () => {
    let isFull = true;
    const full = { code: 403, reason: 'Forbidden', message: 'exceeded quota: few' };
    await run(
      async (simulation) => {
        await greet(simulation);
        await simulation.settle();
        expect(conditionOf(simulation)).toMatchObject({ status: 'False', reason: 'Refused' });
        isFull = false;
        await simulation.advance(3_600_000);
        expect(conditionOf(simulation)).toMatchObject({ status: 'True', reason: 'Written' });
      },
      { refuse: ({ kind, object }) => (isFull && kind === ConfigMap && object !== undefined ? full : undefined) },
    );
  });

  test('starts anew after a crash, and corrects what happened meanwhile', () =>
    run(async (simulation) => {
      await greet(simulation);
      await simulation.settle();
      for (const process of simulation.processes) simulation.crash(process);
      await simulation.client.delete(ConfigMap, key);
      await simulation.start();
      await simulation.settle();
      expect(simulation.objects(ConfigMap)).toHaveLength(1);
    }));

  test('elects one of its processes; another one takes over when its Lease has expired', () =>
    run(
      async (simulation) => {
        await simulation.start();
        const [first, second] = simulation.processes;
        expect([first?.isWorking, second?.isWorking]).toEqual([true, false]);
        if (first !== undefined) simulation.crash(first);
        await greet(simulation);
        await simulation.advance(60_000);
        expect(second?.isWorking).toBe(true);
        expect(simulation.objects(ConfigMap)).toHaveLength(1);
      },
      { leaderElection: { lease: { namespace: 'default', name: 'greeter' } } },
    ));
});

test('a process that is cut off loses its Lease, and another one takes over; what was sent meanwhile arrives later', () =>
  run(
    async (simulation) => {
      const [first] = simulation.processes;
      const started = await simulation.start();
      if (first !== undefined) simulation.cutOff(first, 40_000);
      await greet(simulation);
      await simulation.advance(5000);
      expect(simulation.objects(ConfigMap)).toEqual([]);
      await simulation.advance(20_000);
      expect([first?.hasEnded, started.isWorking]).toEqual([true, true]);
      expect(simulation.objects(ConfigMap)).toHaveLength(1);
      await simulation.advance(20_000);
    },
    { leaderElection: { lease: { namespace: 'default', name: 'greeter' } } },
  ));

test('the job controller gives a Job its pod, and completes the Job with it', () =>
  run(
    async (simulation) => {
      const { client } = simulation;
      const template = { spec: { restartPolicy: 'Never', containers: [{ name: 'main', image: 'example.com/main' }] } };
      await client.create(Job, { metadata: key, spec: { template } });
      await simulation.settle();
      const [pod] = simulation.objects(Pod);
      expect(simulation.objects(Job)).toMatchObject([{ status: { active: 1 } }]);
      if (pod !== undefined) await client.mergeStatus(Pod, pod.metadata, { phase: 'Succeeded' });
      await simulation.settle();
      expect(simulation.objects(Job)).toMatchObject([{ status: { succeeded: 1 } }]);
    },
    { otherControllers: jobController },
  ));

test('another deletion of a pod whose time is over changes its finalizers', () =>
  run(async ({ client }) => {
    const containers = [{ name: 'main', image: 'example.com/main' }];
    await client.create(Pod, { metadata: key, spec: { nodeName: 'n', terminationGracePeriodSeconds: 0, containers } });
    await client.delete(Pod, key, { propagationPolicy: 'Foreground' });
    expect((await client.get(Pod, key)).metadata.finalizers).toEqual(['foregroundDeletion']);
    await client.delete(Pod, key, { propagationPolicy: 'Orphan' });
    expect((await client.get(Pod, key)).metadata).toMatchObject({ finalizers: ['orphan'], generation: 2 });
  }));

test('a test rolls a Deployment out by its status, and the operator reports the new state', async () => {
  const app = defineController(Greeting, {
    owns: [Deployment],
    reasons: {
      Ready: { ready: 'True', event: 'Normal', meaning: 'The pods run.' },
      RollingOut: { ready: 'False', event: 'Normal', meaning: 'The pods are replaced.' },
    },
    reconcile: async ({ metadata, spec }, { apply }) => {
      const labels = { app: metadata.name };
      const { status } = await apply(Deployment, {
        spec: {
          selector: { matchLabels: labels },
          template: { metadata: { labels }, spec: { containers: [{ name: 'main', image: spec.who }] } },
        },
      });
      return status?.availableReplicas === 1
        ? { reason: 'Ready', message: 'one pod' }
        : { reason: 'RollingOut', message: 'no pod yet' };
    },
  });
  await simulate({ controllers: [app] }, async (simulation) => {
    await greet(simulation, 'example.com/app:1');
    await simulation.settle();
    expect(conditionOf(simulation)).toMatchObject({ reason: 'RollingOut' });
    const [deployment] = simulation.objects(Deployment);
    if (deployment === undefined) throw new Error('no Deployment');
    await simulation.client.mergeStatus(Deployment, deployment.metadata, { replicas: 1, availableReplicas: 1 });
    await simulation.settle();
    expect(conditionOf(simulation)).toMatchObject({ reason: 'Ready' });
  });
});

describe('a simulation', () => {
  test('gives Events the same names in each run of a seed', async () => {
    const namesOf = () =>
      run(async (simulation) => {
        await greet(simulation);
        await simulation.settle();
        await simulation.advance(1000);
        return simulation.objects(Event).map(({ metadata }) => metadata.name);
      });
    const names = await namesOf();
    expect(names).not.toEqual([]);
    expect(await namesOf()).toEqual(names);
  });

  test('takes the same steps in each run of a seed', async () => {
    const storyOf = (seed: number) =>
      run(
        async (simulation) => {
          await greet(simulation);
          await simulation.settle();
          await simulation.advance(1_000_000);
          return simulation.story.join('\n');
        },
        { seed },
      );
    const first = await storyOf(7);
    for (let repetition = 0; repetition < 20; repetition += 1) expect(await storyOf(7)).toBe(first);
    expect(await storyOf(8)).not.toBe(first);
  });

  test('gives the process its clock and timers back, also after a failure', async () => {
    const globals = () => [Date, setTimeout, setInterval, setImmediate, clearTimeout, Math.random, AbortSignal.timeout];
    const before = globals();
    await expect(
      run(async () => {
        expect(globals()).not.toEqual(before);
        throw new Error('the test has failed');
      }),
    ).rejects.toThrow('the test has failed');
    expect(globals()).toEqual(before);
  });

  test('refuses a selector of Events by a field that they do not have', () =>
    run(async ({ client }) => {
      const listing = client.list(Event, { namespace: 'default', fieldSelector: 'involvedObject.uid=a' });
      await expect(listing).rejects.toThrow(NotSimulatedError);
    }));

  test('refuses an owner of a kind that the server does not serve, which the garbage collector cannot find', async () => {
    const owner = { apiVersion: 'example.com/v1', kind: 'Other', name: 'a', uid: 'b' };
    const settling = run(async (simulation) => {
      await simulation.client.create(ConfigMap, { metadata: { ...key, ownerReferences: [owner] } });
      await simulation.settle();
    });
    await expect(settling).rejects.toThrow('does not know example.com/v1 Other');
  });

  test('refuses to begin while another one runs', () =>
    run(() => expect(run(async () => {})).rejects.toThrow('a simulation runs in this process already')));

  test('throws at a request that the server does not know', () =>
    run(async ({ client }) => {
      await expect(client.list(CustomResourceDefinition)).rejects.toThrow('add a custom kind to `kinds`');
      const scaling = client.patch(Greeting, key, { type: 'merge', body: {} }, { subresource: 'scale' });
      await expect(scaling).rejects.toThrow(NotSimulatedError);
    }));

  test.each([
    ['opens a socket', () => connect(1, '127.0.0.1')],
    ['starts a process', () => execFile('true')],
    ['uses a file: readFile', () => fs.promises.readFile('/dev/null')],
  ])('refuses an operator that %s, also if it catches the error', async (what, act) => {
    const controller = defineController(Greeting, {
      reasons: {},
      reconcile: async () => {
        try {
          await act();
        } catch {}
      },
    });
    const simulated = simulate({ controllers: [controller] }, async (simulation) => {
      // The test itself may.
      await fs.promises.readFile('/dev/null');
      await greet(simulation);
      await simulation.settle();
    });
    await expect(simulated).rejects.toThrow(NotSimulatedError);
    await expect(simulated).rejects.toThrow(what);
  });

  test('tells the last steps of an operator that does not come to rest', async () => {
    let count = 0;
    const restless = defineController(Greeting, {
      owns: [ConfigMap],
      reasons: {},
      reconcile: async (_, { apply }) => {
        count += 1;
        await apply(ConfigMap, { data: { count: String(count) } });
        return { requeueAfterMs: 1 };
      },
    });
    await expect(
      run(
        async (simulation) => {
          await greet(simulation);
          await simulation.settle();
        },
        { controllers: [restless] },
      ),
    ).rejects.toThrow(/^the operator sends requests without end\nThe last steps:[\s\S]*PATCH .*configmaps\/world/);
  });
});
