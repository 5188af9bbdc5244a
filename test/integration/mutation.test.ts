import { controllerReference, defineReasons, done, type Operator, OutcomeReporter, owns } from '@echoperator/runtime';
import { type Connection, kubeconfigConnection } from '@echoperator/runtime/client';
import { ConfigMap } from '@echoperator/runtime/kinds';
import { connectOperator } from '@echoperator/runtime/process';
import { type MutationSubject, mutate } from '@echoperator/testing';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { pino } from 'pino';
import { readConfig } from '../../src/config.ts';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { addControllers } from '../../src/operator.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { mutatedSubjects } from '../plans/index.ts';

let cluster: TestCluster;
let connection: Connection;
let stack: AsyncDisposableStack;

beforeAll(async () => {
  cluster = await TestCluster.connect();
  connection = await kubeconfigConnection(cluster.kubeconfig);
});

beforeEach(() => {
  stack = new AsyncDisposableStack();
});

afterAll(() => cluster?.close());

/** Runs an operator with these controllers until the stack is disposed. */
async function run(add: (operator: Operator) => unknown): Promise<void> {
  const operator = await connectOperator({ name: 'operator', log: pino({ level: 'silent' }), connection });
  await add(operator);
  const stop = new AbortController();
  const running = operator.run(stop.signal);
  stack.defer(async () => {
    stop.abort();
    await running;
  });
  await operator.manager.synced;
}

const noExternal = { rows: async () => undefined, pets: async () => undefined };

/** The nightly suite changes every property of every kind; this is a sample. */
test('a ScheduledEcho follows each value of suspend and timeZone like a new one', async () => {
  await using _ = stack;
  await run((operator) => addControllers(operator, readConfig({ CONTROLLERS: 'scheduledEcho' })));
  const subjects = mutatedSubjects(noExternal).filter(({ kind }) => kind.kind === 'ScheduledEcho');
  const select = (plan: string) => /suspend|timeZone/.test(plan);
  const { properties, values, failures } = await mutate({ connection, subjects, select });
  expect(failures.map(({ message }) => message)).toEqual([]);
  expect(properties.changed).toEqual(expect.arrayContaining(['ScheduledEcho/suspend', 'ScheduledEcho/timeZone']));
  expect(values.rejected).toBeGreaterThan(0);
});

const reasons = defineReasons({ Kept: { ready: 'True', event: 'Normal', meaning: 'The ConfigMap is kept.' } });

/** Never removes what an earlier spec asked for. */
function addHoarder({ manager, applier, events }: Operator): void {
  const echos = manager.informer(Echo).store;
  const store = manager.informer(ConfigMap).store;
  const reporter = new OutcomeReporter({ kind: Echo, reasons, events });
  manager.controller(Echo, {
    watches: [owns(Echo, ConfigMap)],
    reconcile: async (key, context) => {
      const echo = echos.get(key);
      if (echo === undefined || echo.metadata.deletionTimestamp !== undefined) return done;
      return reporter.reconcile(echo, context, async () => {
        const { ttlSecondsAfterFinished: ttl } = echo.spec;
        const data = { ...store.get(key)?.data, ...(ttl !== undefined && { ttl: String(ttl) }) };
        const metadata = { ...key, ownerReferences: [controllerReference(Echo, echo)] };
        await applier.apply(ConfigMap, { metadata, data }, { client: context.client, store });
        return { reason: 'Kept', message: 'kept' };
      });
    },
  });
}

const refusingReasons = defineReasons({
  Kept: { ready: 'True', event: 'Normal', meaning: 'The ConfigMap is kept.' },
  InvalidSpec: { ready: 'False', event: 'Warning', meaning: 'The spec is invalid.' },
});

/** Refuses one message. Then it deletes the child, and says why in words of the test. */
const addRefuser =
  (refused: { readonly message: string; readonly words: string; readonly deletes: boolean }) =>
  ({ manager, applier, events }: Operator): void => {
    const echos = manager.informer(Echo).store;
    const store = manager.informer(ConfigMap).store;
    const reporter = new OutcomeReporter({ kind: Echo, reasons: refusingReasons, events });
    manager.controller(Echo, {
      watches: [owns(Echo, ConfigMap)],
      reconcile: async (key, context) => {
        const echo = echos.get(key);
        if (echo === undefined || echo.metadata.deletionTimestamp !== undefined) return done;
        const child = store.get(key);
        return reporter.reconcile(echo, context, async () => {
          if (echo.spec.message === refused.message) {
            if (refused.deletes && child !== undefined) await context.client.delete(ConfigMap, key);
            return { reason: 'InvalidSpec', message: refused.words };
          }
          const metadata = { ...key, ownerReferences: [controllerReference(Echo, echo)] };
          const data = { text: JSON.stringify(echo.spec) };
          await applier.apply(ConfigMap, { metadata, data }, { client: context.client, store });
          return { reason: 'Kept', message: 'kept' };
        });
      },
    });
  };

/** With few values, so that a random history is soon the shortest one. */
const hoarded: MutationSubject = {
  kind: Echo,
  children: [ConfigMap],
  spec: { message: 'hello' },
  values: { message: ['bad', 'good'], ttlSecondsAfterFinished: [1] },
};

test('an operator that keeps what an earlier spec asked for fails, and the failure shows the shortest history', async () => {
  await using _ = stack;
  await run(addHoarder);
  const report = await mutate({
    connection,
    subjects: [hoarded],
    select: (plan) => plan === 'Echo/ttlSecondsAfterFinished' || plan === 'Echo/histories',
    seed: 1,
    likenessTimeoutMs: 3000,
  });
  const messages = report.failures.map(({ message }) => message).sort();
  expect(messages).toEqual([
    expect.stringMatching(/^Echo\/histories: seed 1: .*: ConfigMap mutated #1\.data\.ttl is "/s),
    expect.stringMatching(
      /^Echo\/ttlSecondsAfterFinished: .*: no ttlSecondsAfterFinished: ConfigMap mutated #1\.data\.ttl is "/,
    ),
  ]);
});

test('an immutable property is covered by new objects, and fails if an object that exists accepts another value', async () => {
  await using _ = stack;
  await run((operator) => addControllers(operator, readConfig({ CONTROLLERS: 'echo,bookStore' })));
  const [echos, stores] = ['Echo', 'BookStore'].map((name) =>
    mutatedSubjects(noExternal).find(({ kind }) => kind.kind === name),
  );
  const { failures, properties } = await mutate({
    connection,
    subjects: [{ ...echos!, immutable: ['message'] }, stores!],
    select: (plan) => plan === 'Echo/message' || plan === 'BookStore/bookDB.serviceName',
  });
  expect(failures.map(({ message }) => message)).toEqual([
    expect.stringMatching(/^Echo\/message: message = .*: accepted, although it is immutable$/),
  ]);
  expect(properties).toMatchObject({ changed: [], immutable: ['BookStore/bookDB.serviceName'] });
});

test('a spec that no operator handles fails', async () => {
  const select = (plan: string) => plan === 'Echo/message';
  const { failures } = await mutate({ connection, subjects: [hoarded], select, timeoutMs: 1000 });
  expect(failures.map(({ message }) => message)).toEqual([
    expect.stringContaining('the status is that of the last generation: generation 1, observedGeneration undefined'),
  ]);
});

test('an operator that deletes a child when it refuses the spec at the end of a random history fails', async () => {
  await using _ = stack;
  await run(addRefuser({ message: 'bad', words: 'the message is bad', deletes: true }));
  const select = (plan: string) => plan === 'Echo/histories';
  const report = await mutate({ connection, subjects: [hoarded], select, seed: 1, likenessTimeoutMs: 2000 });
  expect(report.failures.map(({ message }) => message)).toEqual([
    expect.stringMatching(/^Echo\/histories: seed 1: .*message = "bad".*: ConfigMap mutated #1 is missing/s),
  ]);
});

test('a refusal that does not name the property fails, also at the end of a random history if it says nothing', async () => {
  await using _ = stack;
  await run(addRefuser({ message: 'bad', words: '', deletes: false }));
  const select = (plan: string) => plan === 'Echo/message' || plan === 'Echo/histories';
  const report = await mutate({ connection, subjects: [hoarded], select, seed: 1, likenessTimeoutMs: 2000 });
  const unnamed = 'the message of InvalidSpec does not name the property';
  expect(report.failures.map(({ message }) => message).sort()).toEqual([
    expect.stringMatching(new RegExp(`^Echo/histories: .*${unnamed}`, 's')),
    expect.stringMatching(new RegExp(`^Echo/message: message = "bad": ${unnamed}`)),
  ]);
});

test('a CEL rule counts as broken when a value breaks it', async () => {
  await using _ = stack;
  await run((operator) => addControllers(operator, readConfig({ CONTROLLERS: 'podSet' })));
  const labels = { 'template.metadata.labels': [{ tier: 'web' }, { app: 'mine' }] };
  const subject = { ...mutatedSubjects(noExternal).find(({ kind }) => kind.kind === 'PodSet')!, spec: { replicas: 0 } };
  const select = (plan: string) => plan === 'PodSet/template.metadata.labels';
  const rulesWith = async (values: MutationSubject['values'] = {}) => {
    const subjects = [{ ...subject, values, withoutEffect: ['template.metadata.labels'] }];
    const { failures, rules } = await mutate({ connection, subjects, select });
    expect(failures.map(({ message }) => message)).toEqual([]);
    return rules;
  };
  const reserved = expect.stringMatching(/^PodSet\/template\.metadata\.labels: the labels app, version and /);
  const all = [
    'PodSet/template.metadata.labels: a key has at most 317 characters',
    reserved,
    'PodSet/template.metadata.annotations: a key has at most 317 characters',
  ];
  expect(await rulesWith(labels)).toEqual({ all, broken: [reserved] });
  expect(await rulesWith({ 'template.metadata.labels': [{ tier: 'web' }] })).toEqual({ all, broken: [] });
});
