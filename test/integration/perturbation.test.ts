import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { type Condition, controllerReference, done, requeueAfter } from '@echoperator/runtime';
import { type Connection, kubeconfigConnection } from '@echoperator/runtime/client';
import { ConfigMap } from '@echoperator/runtime/kinds';
import { perturb, type Scenario } from '@echoperator/testing';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { pino } from 'pino';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { dieWithParent } from '../../testkit/die-with-parent.ts';
import { echoManifest } from '../../testkit/echos.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { scenariosOn } from '../plans/index.ts';
import { sampleNumber, sampleOf } from './environment/perturbation-sample.ts';

let cluster: TestCluster;
let connection: Connection;

beforeAll(async () => {
  cluster = await TestCluster.connect();
  connection = await kubeconfigConnection(cluster.kubeconfig);
});

afterAll(() => cluster?.close());

const log = pino({ level: 'silent' });

const number = sampleNumber();

test('samples of different commits have different plans', () => {
  const plans = Array.from({ length: 100 }, (_, index) => `echo/create write ${index + 1} unsent`);
  expect(sampleOf(plans, number)).toHaveLength(8);
  expect(sampleOf(plans, number)).toEqual(sampleOf(plans, number));
  expect(sampleOf(plans, number)).not.toEqual(sampleOf(plans, number + 1));
});

/**
 * The nightly suite perturbs every write of every scenario. `PERTURB_SAMPLE` repeats a sample. It has only scenarios
 * whose plans have all passed there: a sample must not fail for a reason that the commit has not made.
 */
test(`the operator survives the sample of perturbations ${number}`, async () => {
  const scenarios = scenariosOn(cluster).filter(({ name }) => /^(scheduled-)?echo|^pod-set-in-motion/.test(name));
  const scenario = scenarios[number % scenarios.length]!;
  const select = (plans: readonly string[]) => sampleOf(plans, number);
  const { plans, failures } = await perturb({ connection, log, scenarios: [scenario], select, concurrency: 8 });
  expect(plans).not.toEqual([]);
  expect(failures.map(({ message }) => message)).toEqual([]);
});

const printed: Condition = {
  type: 'Ready',
  status: 'True',
  reason: 'Printed',
  message: '',
  lastTransitionTime: '2026-01-01T00:00:00Z',
};

/** Chooses a new name for its child each time, so a child is lost if the status does not get its name. */
const forgetful: Scenario = {
  name: 'forgetful',
  kinds: [Echo, ConfigMap],
  canonicalName: (name) => name.replace(/^hello-.*/, 'hello-*'),
  addControllers: ({ manager }, namespace) => {
    const scope = { namespaces: [namespace] };
    const echos = manager.informer(Echo, scope).store;
    manager.informer(ConfigMap, scope);
    manager.controller(Echo, {
      reconcile: async (key, { client }) => {
        const echo = echos.get(key);
        if (echo === undefined || echo.status?.jobName !== undefined) return done;
        const name = `hello-${randomUUID().slice(0, 5)}`;
        const metadata = { namespace, name, ownerReferences: [controllerReference(Echo, echo)] };
        await client.create(ConfigMap, { metadata });
        await client.mergeStatus(Echo, echo.metadata, { jobName: name, conditions: [printed] });
        return done;
      },
    });
  },
  steps: {
    create: ({ client, namespace }) =>
      client.create(Echo, echoManifest({ namespace, name: 'hello' }, { message: 'hello' })),
    delete: ({ client, namespace }) => client.delete(Echo, { namespace, name: 'hello' }),
  },
};

test('an operator that forgets a child fails, and the failure names the plan and shows what happened', async () => {
  const only = ['forgetful/create create configmaps'];
  const { plans, failures } = await perturb({ connection, log, scenarios: [forgetful], only });
  const failed = plans.filter((plan) => failures.some(({ message }) => message.startsWith(`${plan} `)));
  // An operator that is told to stop still writes the status. One that is cut off does not create the child.
  expect(failed).toEqual(plans.filter((plan) => !/ (unsent|stopped|cut-off)$/.test(plan)));
  expect(failed).toHaveLength(6);
  const crash = failures.find(({ message }) => message.startsWith('forgetful/create write 1 replied'));
  expect(crash?.message).toMatch(
    /operator 1: create configmaps[\s\S]*201: create configmaps[\s\S]*operator 1 crashes[\s\S]*operator 2: create configmaps/,
  );
  expect(crash?.message).toMatch(/200: patch echos hello\/status: Ready is True, Printed$/m);
  expect(crash?.message).toMatch(/operator 2 receives MODIFIED Echo hello at \d+: Ready is True, Printed$/m);
});

/** In a program of its own, because Jest itself fails a test with such a rejection. */
test('a rejection that nobody handles fails every running plan', async () => {
  const program = join(import.meta.dirname, 'environment/rejecting-operator.ts');
  const [file, args] = dieWithParent(process.execPath, [program, cluster.kubeconfig]);
  const { stdout } = await execa(file, args);
  expect(stdout).toMatch(/^rejecting fails undisturbed: a rejection was not handled: nobody handles this\n/);
});

test('requests of an operator whose objects do not change fail the step', async () => {
  const restless: Scenario = {
    ...forgetful,
    name: 'restless',
    addControllers: ({ manager }, namespace) => {
      const echos = manager.informer(Echo, { namespaces: [namespace] }).store;
      manager.informer(ConfigMap, { namespaces: [namespace] });
      manager.controller(Echo, {
        reconcile: async (key, { client }) => {
          if (echos.get(key) === undefined) return done;
          await client.get(Echo, key);
          // Longer than the quiet time of an undisturbed run.
          return requeueAfter(1900);
        },
      });
    },
  };
  await expect(perturb({ connection, log, scenarios: [restless] })).rejects.toThrow(
    /restless fails undisturbed: the operator sends \d+ requests in \d+ ms although nothing changes/,
  );
});

test('a name that selects no plan is refused', async () => {
  const only = ['forgetful/create create configmaps', 'forgetful/creat'];
  await expect(perturb({ connection, log, scenarios: [forgetful], only })).rejects.toThrow(
    'no plan is named "forgetful/creat"; one of them is forgetful/create write 1 unsent',
  );
});

test('what the operator does because somebody else is late is no unrest', async () => {
  let late: NodeJS.Timeout | undefined;
  const late500Ms = (act: () => Promise<unknown>): void => {
    clearTimeout(late);
    late = setTimeout(() => void act().catch(() => {}), 500);
  };
  const edited = new Set<string>();
  const answering: Scenario = {
    ...forgetful,
    name: 'answering',
    addControllers: ({ manager }, namespace) => {
      const echos = manager.informer(Echo, { namespaces: [namespace] }).store;
      manager.informer(ConfigMap, { namespaces: [namespace] });
      manager.controller(Echo, {
        reconcile: async (key, { client }) => {
          const echo = echos.get(key);
          if (echo !== undefined) await client.mergeStatus(Echo, echo.metadata, { jobName: echo.spec.message });
          return done;
        },
      });
    },
    // The last call precedes the end of the wait for a settled state, so the edit comes during the rest.
    meanwhile: async ({ client, namespace }) => {
      late500Ms(async () => {
        if (edited.has(namespace)) return;
        edited.add(namespace);
        await client.patch(Echo, { namespace, name: 'hello' }, { type: 'merge', body: { spec: { message: 'late' } } });
      });
    },
  };
  const only = ['answering/create patch echos hello/status replied'];
  const { plans, failures } = await perturb({ connection, log, scenarios: [answering], only });
  expect(plans).not.toEqual([]);
  expect(failures).toEqual([]);
  expect(edited.size).toBeGreaterThan(0);
});

test('a check that must hold at any time sees what is gone at the end of a step', async () => {
  const brief: Scenario = {
    ...forgetful,
    name: 'brief',
    always: () => (objects) => {
      const children = objects.filter(({ kind }) => kind === 'ConfigMap');
      return children.some(({ object }) => object.metadata.name === 'brief') ? 'there is a brief child' : undefined;
    },
    steps: {
      create: async ({ client, namespace }) => {
        await client.create(ConfigMap, { metadata: { namespace, name: 'brief' } });
        await client.delete(ConfigMap, { namespace, name: 'brief' });
      },
    },
  };
  await expect(perturb({ connection, log, scenarios: [brief] })).rejects.toThrow(
    /brief fails undisturbed: there is a brief child, since ConfigMap brief was ADDED at \d+/,
  );
});
