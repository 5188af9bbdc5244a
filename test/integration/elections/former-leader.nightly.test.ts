import { mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Lease } from '@echoperator/runtime/kinds';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { certificate, certificateKey } from '../../../testkit/certificate.ts';
import { eventually } from '../../../testkit/eventually.ts';
import type { OperatorProcess } from '../../../testkit/operator-process.ts';
import { PetStoreProcess } from '../../../testkit/pet-store-process.ts';
import { serverOfWorker } from '../../../testkit/server-of-worker.ts';
import { TcpProxy } from '../../../testkit/tcp-proxy.ts';
import { PetWorld } from '../environment/pet-world.ts';
import { PostgresWorld } from '../environment/postgres-world.ts';

/**
 * A leader is frozen while it waits for a connection to an external system, in order to write. Meanwhile another
 * replica leads. When the former leader wakes it gets its connection, and must not use it.
 */

/** Short, but long enough for renewals on a busy machine. */
const quick = { HA_LEASE_DURATION_SECONDS: '6', HA_RENEW_DEADLINE_SECONDS: '4', HA_RETRY_PERIOD_SECONDS: '0.5' };

let resources: AsyncDisposableStack;

beforeEach(() => {
  resources = new AsyncDisposableStack();
});
afterEach(() => resources.disposeAsync());

type Settings = Readonly<Record<string, string>>;

/** Starts two replicas, of which the first leads. */
async function replicas(
  world: Pick<PostgresWorld, 'namespace' | 'client'>,
  start: (settings: Settings) => Promise<OperatorProcess>,
  settings: { readonly first: Settings; readonly second: Settings },
) {
  const { namespace, client } = world;
  const started = async (name: keyof typeof settings): Promise<OperatorProcess> => {
    const own = { NAMESPACE: namespace, WATCH_NAMESPACES: namespace, HA_ENABLED: 'true', HA_NODE_ID: name };
    // The role that tests of one kind use has no rule for Leases.
    const operator = await start({ KUBECONFIG: serverOfWorker().kubeconfig, ...own, ...quick, ...settings[name] });
    resources.defer(async () => void (await operator.stop('SIGKILL')));
    return operator;
  };
  const leads = (name: string) =>
    eventually(`${name} leads`, async () => {
      const { spec } = await client.get(Lease, { namespace, name: 'echoperator' });
      return spec?.holderIdentity?.startsWith(name);
    });
  const leader = await started('first');
  await leads('first');
  await started('second');
  return {
    leader,
    /** Freezes the first replica, and resolves when the second leads. */
    freezeLeader: async (): Promise<void> => {
      leader.freeze();
      await leads('second');
    },
  };
}

/** Expects that the operator ends because it has lost its Lease. */
async function expectLostLease(operator: OperatorProcess): Promise<void> {
  const { exitCode, output } = await operator.waitForExit();
  expect(output).toContain('the lease is lost: starting no new work');
  expect(exitCode).toBe(1);
}

test('a leader that was frozen does not write a row that was deleted meanwhile', async () => {
  const world = resources.use(await PostgresWorld.start());
  await world.createTable('students');
  const proxy = resources.use(await TcpProxy.start(world.database.port));
  const settings = { PSQL_SSLMODE: 'disable', PSQL_CONNECT_TIMEOUT_SECONDS: '60' };
  const { leader, freezeLeader } = await replicas(world, (own) => world.startOperator(own), {
    first: { ...settings, PSQL_PORT: String(proxy.port) },
    second: settings,
  });
  const key = world.newKey('jane');
  const jane = { table: 'students', name: 'Jane', age: 21, country: 'Peru' } as const;
  await world.apply(key, jane);
  await world.withReason(key, 'RowWritten');

  proxy.hold();
  await world.apply(key, { ...jane, age: 22 });
  await eventually('the leader waits for a connection', async () => proxy.heldCount > 0);
  await freezeLeader();
  await eventually(
    'the second replica has written the row',
    async () => (await world.rows('students', key))[0]?.age === 22,
  );
  await world.delete(key);
  await world.gone(key);
  let statements = 0;
  proxy.onSent((data) => {
    if (/INSERT INTO|DELETE FROM/.test(data.toString('latin1'))) statements += 1;
  });
  proxy.release();
  leader.thaw();
  await expectLostLease(leader);
  expect(statements).toBe(0);
  expect(await world.rows('students')).toEqual([]);
});

test('a leader that was frozen does not revert a pet that was changed meanwhile', async () => {
  const folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'former-leader-'));
  const file = async (name: string, content: string): Promise<string> => {
    await writeFile(join(folder, name), content);
    return join(folder, name);
  };
  const caFile = await file('tls.crt', certificate);
  // With TLS a connection exists only after the store has responded. Without TLS the call would be sent at once and
  // wait in the proxy.
  const store = await PetStoreProcess.start({
    PETSTORE_TLS_CERT_FILE: caFile,
    PETSTORE_TLS_KEY_FILE: await file('tls.key', certificateKey),
  });
  resources.defer(async () => void (await store.stop()));
  const world = resources.use(await PetWorld.start(store.port, { ca: certificate }));
  const proxy = resources.use(await TcpProxy.start(store.port));
  const settingsFor = (port: number) => ({
    PETSTORE_ADDRESS: `127.0.0.1:${port}`,
    PETSTORE_TLS: 'true',
    PETSTORE_CA_FILE: caFile,
    PETSTORE_TIMEOUT_SECONDS: '60',
  });
  const { leader, freezeLeader } = await replicas(world, (settings) => world.operator(settings), {
    first: settingsFor(proxy.port),
    second: settingsFor(store.port),
  });
  const thor = { name: 'Thor', type: 'dog', birthday: '2021-04-01T00:00:00Z' } as const;
  await world.apply('thor', thor);
  await world.settled();

  proxy.hold();
  await world.apply('thor', { ...thor, name: 'Odin' });
  await eventually('the leader waits for a connection', async () => proxy.heldCount > 0);
  await freezeLeader();
  await world.settled();
  await world.apply('thor', { ...thor, name: 'Loki' });
  await world.settled();
  proxy.release();
  leader.thaw();
  await expectLostLease(leader);
  expect((await world.stored()).map(({ name }) => name)).toEqual(['Loki']);
});
