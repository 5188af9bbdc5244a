import { type FaultProxy, isWrite, type ProxiedRequest } from '@echoperator/testing';
import { expect } from '@jest/globals';
import { eventually } from '../../../testkit/eventually.ts';
import { TcpProxy } from '../../../testkit/tcp-proxy.ts';
import { PostgresWorld, readyOf } from './postgres-world.ts';

/** Shared by the tests of PostgresWriters with faults: a database and a proxy for it. Each test starts the operator. */

export let world: PostgresWorld;
/** The operator's proxy for the database. */
export let proxy: TcpProxy;

/** Settings without TLS, so that the proxy can read the statements. */
export const plain = () => ({ PSQL_PORT: String(proxy.port), PSQL_SSLMODE: 'disable' });

export const jane = { table: 'students', name: 'Jane', age: 21, country: 'Peru' } as const;

export async function setUpFaults(): Promise<void> {
  world = await PostgresWorld.start();
  for (const table of ['students', 'a', 'b', 'c']) await world.createTable(table);
  proxy = await TcpProxy.start(world.database.port);
}

/** After each test: ends the operator and every fault. */
export async function endFaults(): Promise<void> {
  proxy.refuse(false);
  proxy.onSent(() => {});
  await world.stopOperator();
  // A failed test may have left the database down.
  world.database.thaw();
  if (!world.database.isRunning) await world.database.restart();
}

export async function tearDownFaults(): Promise<void> {
  await proxy?.[Symbol.asyncDispose]();
  await world?.[Symbol.asyncDispose]();
}

/** Starts an operator that cannot use TLS with these settings. @returns the message of the condition */
export async function refusals(settings: Readonly<Record<string, string>>): Promise<string> {
  await world.startOperator(settings);
  const key = world.newKey('tls');
  await world.apply(key, jane);
  const message = readyOf(await world.withReason(key, 'TlsRefused'))?.message ?? '';
  // The status names no table, but another operator may have written the row, so the deletion waits for the database.
  await world.delete(key);
  await eventually('its deletion waits', async () =>
    readyOf(await world.get(key))?.message?.startsWith('waiting to delete the row from'),
  );
  return message;
}

/** A write of the operator to a PostgresWriter (`api`), or a statement that changes rows (`sql`). Counted from 1. */
export interface KillPoint {
  readonly where: 'api' | 'sql';
  readonly number: number;
}

/** The steps of a test in which the operator is killed. */
export interface KillScenario {
  /** Runs before the writes are counted. */
  readonly prepare?: () => Promise<unknown>;
  /** Causes the write after which the operator is killed. */
  readonly cause: () => Promise<unknown>;
  /** Runs while there is no operator. */
  readonly meanwhile?: () => Promise<unknown>;
  /** Runs with the next operator. */
  readonly verify: () => Promise<unknown>;
}

/**
 * Kills the operator after a write whose reply it does not receive, and starts it again. Writes in other namespaces do
 * not count.
 */
export async function killAfter(
  { where, number }: KillPoint,
  namespace: string,
  { prepare, cause, meanwhile, verify }: KillScenario,
): Promise<void> {
  const { proxy: api, kubeconfig } = await world.throughProxy();
  try {
    const settings = { ...plain(), KUBECONFIG: kubeconfig };
    await world.startOperator(settings);
    await prepare?.();
    const kill = where === 'api' ? killAfterApiWrite(api, number, namespace) : killAfterStatement(number);
    await cause();
    await kill();
    await meanwhile?.();
    await world.startOperator(settings);
    await verify();
  } finally {
    await api.close();
  }
}

/** Drops the reply to a write to the API server. Returns a function that waits for the write and kills the operator. */
function killAfterApiWrite(api: FaultProxy, number: number, namespace: string): () => Promise<void> {
  let writes = 0;
  const on = (request: ProxiedRequest): boolean => {
    if (!isWrite(request) || request.resource !== 'postgreswriters' || !request.path.includes(`/${namespace}/`))
      return false;
    writes += 1;
    return writes === number;
  };
  const lost = api.inject({ type: 'lost-response' }, { on, times: 1 });
  return async () => {
    await eventually(`write ${number} to the API server is done`, async () => lost.count === 1);
    await world.stopOperator('SIGKILL');
    lost.off();
  };
}

/** The same for a statement that changes rows. */
function killAfterStatement(number: number): () => Promise<void> {
  let statements = 0;
  proxy.onSent((data) => {
    if (!/INSERT INTO|DELETE FROM/.test(data.toString('latin1'))) return;
    statements += 1;
    if (statements !== number) return;
    proxy.mute();
  });
  return async () => {
    await eventually(`statement ${number} is sent`, async () => statements >= number);
    await world.stopOperator('SIGKILL');
    proxy.onSent(() => {});
  };
}

/** Kills the operator while a row moves from table a to b, then sets table c. In the end the row is only in c. */
export async function killWhileMoving(point: KillPoint): Promise<void> {
  const key = world.newKey('moved');
  await killAfter(point, key.namespace, {
    prepare: async () => {
      await world.apply(key, { ...jane, table: 'a' });
      await world.withReason(key, 'RowWritten');
    },
    cause: () => world.apply(key, { ...jane, table: 'b' }),
    meanwhile: () => world.apply(key, { ...jane, table: 'c' }),
    verify: async () => {
      const { status } = await world.withReason(key, 'RowWritten');
      expect(status?.tables).toEqual(['public.c']);
      const counts = await Promise.all(['a', 'b', 'c'].map(async (table) => (await world.rows(table, key)).length));
      expect(counts).toEqual([0, 0, 1]);
    },
  });
}
