import { keyOf } from '@echoperator/runtime';
import { ConfigMap, CronJob, Job, Node, Pod, Service } from '@echoperator/runtime/kinds';
import { expect, test } from '@jest/globals';
import { child } from '../../../../packages/runtime/src/controller/context.ts';
import { defineController } from '../../../../packages/runtime/src/controller/define-controller.ts';
import { Gadget } from '../../environment/gadgets.ts';

const reasons = { Made: { ready: 'True', event: 'Normal', meaning: 'All is there.' } } as const;

/** The compiler checks each definition. */
const definitions = () => [
  defineController(Gadget, {
    reasons,
    memory: () => ({ lastJob: undefined as Job | undefined }),
    setUp: async ({ store, registry }) => ({ connection: store.size, registry }),
    sources: ({ connection }) => [(enqueue) => enqueue({ name: String(connection) })],
    indexes: {
      byJob: { kind: CronJob, values: (cronJob) => cronJob.status?.active?.map(({ uid = '' }) => uid) ?? [] },
    },
    owns: [
      ConfigMap,
      Service,
      {
        kind: Job,
        write: 'create',
        predicate: ({ object }) => object.spec?.suspend !== true,
        onChange: ({ object }, gadget, memory) => {
          memory.lastJob = gadget.spec.size === 1 ? object : undefined;
        },
      },
    ],
    refersTo: [{ kind: Node, keys: ({ spec }) => (spec.uses === undefined ? [] : [spec.uses]) }],
    watches: [
      {
        kind: Pod,
        predicate: ({ object }) => object.spec?.nodeName !== undefined,
        keys: (pod, { find, ownersAskingFor }) =>
          find('byJob', pod.spec?.nodeName ?? '').flatMap((cronJob) => ownersAskingFor(CronJob, keyOf(cronJob))),
      },
    ],
    observe: () => ({ status: { phase: 'Waiting' } }),
    reconcile: async ({ spec }, { apply, applyAll, find, get, memory, owned, report, state, writeStatus }) => {
      const job: Job | undefined = memory.lastJob;
      const count: number = state.connection;
      const configMap = await apply(ConfigMap, { data: { text: String(count) } });
      const [first, second] = await applyAll([child(ConfigMap, {}), child(Service, { spec: {} })]);
      const texts = [configMap.data?.text, first.data?.text, second.spec?.clusterIP];
      find('byJob', '')[0]?.spec?.schedule.trim();
      // @ts-expect-error no index has this name
      find('byPod', '');
      get(Node, 'n')?.spec?.podCIDR?.trim();
      owned(Service)[0]?.spec?.clusterIP?.trim();
      await writeStatus({ phase: 'Waiting' });
      // @ts-expect-error no such phase
      await writeStatus({ phase: 'Ready' });
      // @ts-expect-error a reason that is not declared
      await report({ reason: 'Mad', message: '' });
      await report({ reason: 'Made', message: texts.join(' ') });
      if (spec.size === 2) return { requeueAfterMs: 10 };
      if (spec.size === 3) return undefined;
      if (job !== undefined) return { reason: 'NameTaken', message: '', status: { phase: null, parts: 3 } };
      return { reason: 'Made', message: '', status: { phase: 'Done' }, requeueAfterMs: 5 };
    },
  }),
  defineController(Gadget, {
    reasons,
    reconcile: async (_, { isCurrent }) => {
      await isCurrent();
    },
  }),
  defineController(Gadget, {
    reasons,
    // @ts-expect-error a reason that is not declared
    reconcile: async () => ({ reason: 'Mad', message: '' }),
  }),
  defineController(Gadget, {
    reasons,
    // @ts-expect-error no such phase
    reconcile: async () => ({ reason: 'Made', message: '', status: { phase: 'Ready' } }),
  }),
  defineController(Gadget, {
    reasons,
    // @ts-expect-error a misspelt field of the status
    reconcile: async () => ({ reason: 'Made', message: '', status: { phase: 'Done', fase: 'Done' } }),
  }),
  defineController(Gadget, {
    reasons,
    // @ts-expect-error a misspelt member
    reconcile: async () => ({ reason: 'Made', message: '', requeueAfter: 10 }),
  }),
  defineController(Gadget, {
    reasons,
    // @ts-expect-error no such phase
    observe: () => ({ status: { phase: 'Ready' } }),
    reconcile: async () => undefined,
  }),
  defineController(Gadget, {
    reasons,
    reconcile: async () => undefined,
    finalizer: {
      name: 'test.example/parts',
      // @ts-expect-error a reason that is not declared
      cleanUp: async () => ({ reason: 'Mad', message: '' }),
    },
  }),
  defineController(Gadget, {
    reasons,
    reconcile: async () => undefined,
    finalizer: {
      name: 'test.example/parts',
      // @ts-expect-error no outcome: nothing would say why the object stays
      cleanUp: async () => {},
    },
  }),
  defineController(Gadget, {
    reasons,
    reconcile: async () => undefined,
    // @ts-expect-error a reason that is not declared
    failed: () => ({ reason: 'Mad', message: '' }),
  }),
];

test('the definitions that compile are controllers', () => {
  expect(definitions().map(({ kind }) => kind)).toEqual(Array(10).fill(Gadget));
});
