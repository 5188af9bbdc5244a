import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { eventually } from '../../testkit/eventually.ts';
import { PostgresWorld } from './environment/postgres-world.ts';

/** `POSTGRES_WRITERS=10000` for the long form. */
const count = Number(process.env.POSTGRES_WRITERS ?? 500);
const timeoutMs = 120_000 + count * 90;

/** Of up to 10,000 rows, whatever comes between them. */
const maxStatements = 200;

let world: PostgresWorld;

beforeAll(async () => {
  world = await PostgresWorld.start();
  await world.createTable('students');
  // It says how often each statement ran, and for how long.
  await world.startOperator({ NUM_WORKERS: '4', RESYNC_SECONDS: '86400' });
});

afterAll(async () => {
  await world?.[Symbol.asyncDispose]();
});

/**
 * What is counted in the database is how long its statements were planned and executed, as pg_stat_statements has it. It is
 * the time of a clock, and the API server, the operator and this test want the processors too: so the COPY that it is
 * compared with is taken again and again while the operator writes, and not at a quiet moment afterwards. Commits, and
 * the reading of parameters, are counted on neither side; `make bench` counts them too.
 */
interface Cost {
  readonly statements: number;
  readonly milliseconds: number;
}

const planAndExecution = 'total_plan_time + total_exec_time';

/** What the operator's role has cost the database since the last time. */
async function cost(): Promise<Cost> {
  const [row] = await world.database.query<{ readonly calls: string; readonly ms: number }>(
    `SELECT coalesce(sum(calls), 0) AS calls, coalesce(sum(${planAndExecution}), 0) AS ms FROM pg_stat_statements
     WHERE userid = (SELECT oid FROM pg_roles WHERE rolname = 'writer')`,
  );
  await world.database.query('SELECT pg_stat_statements_reset()');
  return { statements: Number(row?.calls), milliseconds: Number(row?.ms) };
}

/** Copies as many rows into a table of the same form by one COPY, every second until the work has ended. */
async function besideCopies<T>(work: () => Promise<T>): Promise<T> {
  await world.createTable('copied');
  const [setting] = await world.database.query<{ readonly folder: string }>(
    "SELECT current_setting('data_directory') AS folder",
  );
  const file = `'${setting?.folder}/rows'`;
  const rows = `SELECT 'test-0123456789/many-' || i, 'many-' || i, 21, 'Peru' FROM generate_series(1, ${count}) AS i`;
  await world.database.query(`COPY (${rows}) TO ${file}`);
  const ending = new AbortController();
  const copies = (async (): Promise<void> => {
    while (!ending.signal.aborted) {
      await world.database.query('TRUNCATE copied');
      await world.database.query(`COPY copied FROM ${file}`);
      await delay(1000, undefined, { signal: ending.signal }).catch(() => {});
    }
  })();
  try {
    return await work();
  } finally {
    ending.abort();
    await copies;
  }
}

/** How long a COPY took, in the mean. */
async function copyMs(): Promise<number> {
  const [row] = await world.database.query<{ readonly ms: number }>(
    `SELECT (${planAndExecution}) / calls AS ms FROM pg_stat_statements WHERE query LIKE 'COPY copied FROM%'`,
  );
  return Number(row?.ms);
}

/** Sixteen at a time. */
async function each(act: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) await act(next++);
  };
  await Promise.all(Array.from({ length: 16 }, worker));
}

/** To look at the rows costs less than to look at the resources. */
async function rowsWhere(condition: string, wanted: number): Promise<void> {
  const look = async (): Promise<boolean> => {
    await delay(250);
    const [row] = await world.database.query<{ readonly found: string }>(
      `SELECT count(*) AS found FROM students WHERE ${condition}`,
    );
    return Number(row?.found) === wanted;
  };
  await eventually(`there are ${wanted} rows with ${condition}`, look, timeoutMs);
}

test(
  `${count} PostgresWriters are made, changed and deleted in few statements, and rows = resources`,
  async () => {
    const namespace = await world.cluster.namespace();
    const apply = (spec: { readonly age: number }) =>
      each((index) => {
        const name = `many-${index}`;
        return world.apply({ name, namespace }, { table: 'students', name, country: 'Peru', ...spec });
      });
    await cost();
    const startedAtMs = performance.now();
    await besideCopies(async () => {
      await apply({ age: 21 });
      await rowsWhere('age = 21', count);
    });
    const copied = await copyMs();
    await world.settled(namespace, ['students'], timeoutMs);
    const seconds = (performance.now() - startedAtMs) / 1000;
    const made = await cost();
    await apply({ age: 22 });
    await rowsWhere('age = 22', count);
    await world.settled(namespace, ['students'], timeoutMs);
    const changed = await cost();
    await each((index) => world.delete({ name: `many-${index}`, namespace }));
    await rowsWhere('true', 0);
    await world.gone({ name: `many-${count - 1}`, namespace });
    await world.settled(namespace, ['students'], timeoutMs);
    const deleted = await cost();
    process.stdout.write(
      `${count} PostgresWriters with their rows after ${seconds.toFixed(1)} s; statements: ${made.statements}, changed ${changed.statements}, deleted ${deleted.statements}; ` +
        `database: ${made.milliseconds.toFixed(0)} ms, a COPY of as many ${copied.toFixed(0)} ms\n`,
    );
    expect(made.statements).toBeLessThanOrEqual(maxStatements);
    // These come one by one, as fast as the API server takes them, and meet less company.
    for (const { statements } of [changed, deleted]) expect(statements).toBeLessThan(count / 2);
    // Of few rows it is the statements' own cost, and chance, that counts.
    if (count >= 10_000) expect(made.milliseconds).toBeLessThanOrEqual(5 * copied);
    expect(await world.rows('students')).toEqual([]);
  },
  timeoutMs * 3,
);
