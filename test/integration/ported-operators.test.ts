import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { customResourceDefinition, type Operator } from '@echoperator/runtime';
import { createClient, getIfPresent } from '@echoperator/runtime/client';
import { Deployment, Namespace, Secret } from '@echoperator/runtime/kinds';
import { connectOperator } from '@echoperator/runtime/process';
import { ApiServer, eventually, FaultProxy, isWatch } from '@echoperator/testing';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { KubeConfig } from '@kubernetes/client-node';
import { pino } from 'pino';
import { Backend, backends } from '../../examples/backend/backend.ts';
import { addTeamSecrets } from '../../examples/team-secrets/team-secrets.ts';
import { apiServerPrograms } from '../../testkit/api-server-programs.ts';
import { tableAfter } from '../../testkit/markdown.ts';
import { makePageFolder } from '../../testkit/page-folder.ts';
import { startBackends, startTeamSecrets } from './environment/operators-on-client-node.ts';

type How = 'reset' | 'end';
/** Starts an operator behind the proxy. Returns the function that stops it. */
type Start = () => Promise<() => Promise<void>>;
/** The events of which each effect is looked for: the name of the event, and whether its effect is there. */
type Effects = Readonly<Record<string, () => Promise<boolean>>>;

let cleanUp: AsyncDisposableStack;
let proxy: FaultProxy;
let client: ReturnType<typeof createClient>;
let config: KubeConfig;

beforeAll(async () => {
  cleanUp = new AsyncDisposableStack();
  const folder = await makePageFolder();
  cleanUp.defer(() => rm(folder, { recursive: true, force: true }));
  process.env.KUBEBUILDER_ASSETS = await apiServerPrograms(folder);
  const server = cleanUp.use(await ApiServer.start({ crds: [customResourceDefinition(Backend)] }));
  proxy = cleanUp.use(await FaultProxy.start({ upstream: server.connection, tls: server.tls }));
  client = createClient(server.connection, { fieldManager: 'test' });
  cleanUp.defer(() => client.close());
  config = new KubeConfig();
  const url = proxy.connection.server.href.replace(/\/$/, '');
  config.loadFromClusterAndUser({ name: 'proxy', server: url, skipTLSVerify: true }, { name: 'user' });
});
afterAll(() => cleanUp.disposeAsync());

const onRuntime =
  (add: (operator: Operator) => unknown): Start =>
  async () => {
    const log = pino({ level: 'silent' });
    const operator = await connectOperator({ name: 'ported', log, connection: proxy.connection });
    add(operator);
    const stop = new AbortController();
    const running = operator.run(stop.signal);
    return async () => {
      stop.abort();
      await running;
    };
  };

/** Runs `changes` while each of `watches` is cut. */
async function whileCut(how: How, watches: number, changes: () => Promise<void>): Promise<void> {
  const cut = proxy.inject({ type: 'cut', how }, { on: isWatch });
  try {
    await changes();
    await eventually('the watches are cut', async () => cut.count >= watches);
  } finally {
    cut.off();
  }
}

async function lostOf(effects: Effects): Promise<readonly string[]> {
  const lost: string[] = [];
  for (const [name, isThere] of Object.entries(effects)) if (!(await isThere())) lost.push(name);
  return lost;
}

/** Waits until no effect is missing. Returns the missing ones if that does not happen, in the error. */
const allArrive = (effects: Effects): Promise<unknown> =>
  eventually('no event is lost', async () => {
    const lost = await lostOf(effects);
    if (lost.length > 0) throw new Error(`lost: ${lost.join(', ')}`);
    return true;
  });

const three = [1, 2, 3] as const;
const withEach = async (change: (n: number) => Promise<unknown>): Promise<void> => {
  for (const n of three) await change(n);
};

/** The line of the page's table for an operator and a kind of cut. */
async function saidLost(operator: string, how: How): Promise<readonly (string | undefined)[]> {
  const page = await readFile(join(import.meta.dirname, '../../docs/ported-operators.md'), 'utf8');
  const rows = tableAfter(page, '| operator | the watch |');
  const end = how === 'reset' ? 'is reset' : 'ends';
  const row = rows.find((each) => each.operator?.includes(operator) && each['the watch'] === end);
  return [row?.events, row?.['lost before'], row?.['lost after']];
}

describe('the copies of team secrets', () => {
  const type = 'kubernetes.io/tls';
  const data = (text: string) => ({ 'tls.crt': btoa(text), 'tls.key': btoa('key') });
  let run = 0;

  beforeAll(async () => {
    for (const name of ['argocd', 'istio-system']) await client.create(Namespace, { metadata: { name } });
  });

  async function scenario(how: How, start: Start) {
    run += 1;
    const namespace = `team-${run}`;
    await client.create(Namespace, { metadata: { name: namespace } });
    const create = (name: string) =>
      client.create(Secret, { metadata: { namespace, name }, type, data: data('first') });
    const copyOf = (name: string) =>
      getIfPresent(client, Secret, { namespace: 'istio-system', name: `copy-${namespace}-${name}` });
    const isCopied = (name: string) => async () => (await copyOf(name)) !== undefined;
    const stop = await start();
    await withEach((n) => create(`changed-${n}`));
    await withEach((n) => create(`deleted-${n}`));
    await withEach((n) => eventually('it is copied', isCopied(`deleted-${n}`)));
    await whileCut(how, 1, async () => {
      await withEach((n) => create(`created-${n}`));
      await withEach((n) =>
        client.patch(Secret, { namespace, name: `changed-${n}` }, { type: 'merge', body: { data: data('second') } }),
      );
      await withEach((n) => client.delete(Secret, { namespace, name: `deleted-${n}` }));
    });
    await withEach((n) => eventually('what was created is copied', isCopied(`created-${n}`)));
    // Its event is later than all others.
    await create('last');
    await eventually('the last one is copied', isCopied('last'));
    const effects = Object.fromEntries(
      three.flatMap((n) => [
        [`created-${n}`, isCopied(`created-${n}`)],
        [`changed-${n}`, async () => (await copyOf(`changed-${n}`))?.data?.['tls.crt'] === btoa('second')],
        [`deleted-${n}`, async () => !(await isCopied(`deleted-${n}`)())],
      ]),
    );
    return { effects, stop };
  }

  test.each<How>(['reset', 'end'])(
    'lose changes and deletions under a cut watch (%s), and none on the runtime',
    async (how) => {
      const old = await scenario(how, async () => {
        const stop = startTeamSecrets(config, client);
        return async () => stop();
      });
      await old.stop();
      const lost = await lostOf(old.effects);
      expect(lost.toSorted()).toEqual(['changed-1', 'changed-2', 'changed-3', 'deleted-1', 'deleted-2', 'deleted-3']);

      const current = await scenario(how, onRuntime(addTeamSecrets));
      try {
        await allArrive(current.effects);
      } finally {
        await current.stop();
      }
      expect(await saidLost('Secrets', how)).toEqual(['9', String(lost.length), '0']);
    },
  );
});

describe('the Deployments of Backends', () => {
  let run = 0;

  async function scenario(how: How, start: Start) {
    run += 1;
    const namespace = `backends-${run}`;
    await client.create(Namespace, { metadata: { name: namespace } });
    const keyOf = (name: string) => ({ namespace, name });
    const create = (name: string) =>
      client.create(Backend, {
        metadata: keyOf(name),
        spec: { image: 'app', replicas: 1, enabled: true, computeClass: 'small' },
      });
    const hasDeployment = (name: string) => async () =>
      (await getIfPresent(client, Deployment, keyOf(name))) !== undefined;
    const becomeAvailable = async (name: string) => {
      const { metadata } = await client.get(Deployment, keyOf(name));
      const counts = { replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1 };
      await client.mergeStatus(Deployment, metadata, { ...counts, observedGeneration: metadata.generation });
    };
    const statusOf = async (name: string) => (await client.get(Backend, keyOf(name))).status;
    const isAvailable = (name: string) => async () => (await statusOf(name))?.availableReplicas === 1;
    const isPaused = (name: string) => async () => {
      const { status, metadata } = await client.get(Backend, keyOf(name));
      const { spec } = await client.get(Deployment, keyOf(name));
      return spec?.replicas === 0 && status?.startTime === 0 && status.observedGeneration === metadata.generation;
    };

    const stop = await start();
    const before = ['watched', ...three.flatMap((n) => [`changed-${n}`, `started-${n}`, `later-${n}`])];
    for (const name of before) await create(name);
    for (const name of before) await eventually('it has a Deployment', hasDeployment(name));
    await becomeAvailable('watched');
    await eventually('the Deployments are watched', isAvailable('watched'));
    await whileCut(how, 2, async () => {
      await withEach((n) => create(`created-${n}`));
      await withEach((n) =>
        client.patch(Backend, keyOf(`changed-${n}`), { type: 'merge', body: { spec: { enabled: false } } }),
      );
      await withEach((n) => becomeAvailable(`started-${n}`));
    });
    await withEach((n) => eventually('what was created has a Deployment', hasDeployment(`created-${n}`)));
    await withEach((n) => becomeAvailable(`later-${n}`));
    // Its event is later than all others.
    await create('last');
    await eventually('the last one has a Deployment', hasDeployment('last'));
    const effects = Object.fromEntries(
      three.flatMap((n) => [
        [`created-${n}`, hasDeployment(`created-${n}`)],
        [`changed-${n}`, isPaused(`changed-${n}`)],
        [`started-${n}`, isAvailable(`started-${n}`)],
        [`later-${n}`, isAvailable(`later-${n}`)],
      ]),
    );
    return { effects, stop };
  }

  const lostOn = {
    reset: ['changed', 'later', 'started'],
    end: ['changed'],
  } as const;

  test.each<How>(['reset', 'end'])('lose changes under a cut watch (%s), and none on the runtime', async (how) => {
    const old = await scenario(how, async () => {
      const stop = startBackends(config, client);
      return async () => stop();
    });
    const expected = lostOn[how].flatMap((name) => three.map((n) => `${name}-${n}`));
    try {
      // The informer's events have no order with those of the watch.
      await eventually(
        'what is not lost has arrived',
        async () => (await lostOf(old.effects)).length === expected.length,
      );
    } finally {
      await old.stop();
    }
    const lost = await lostOf(old.effects);
    expect(lost.toSorted()).toEqual(expected);

    const current = await scenario(
      how,
      onRuntime((operator) => backends.add(operator)),
    );
    try {
      await allArrive(current.effects);
    } finally {
      await current.stop();
    }
    expect(await saidLost('Backend', how)).toEqual(['12', String(lost.length), '0']);
  });
});
