import { type Applier, type Client, findCondition, type Logger, type ReadonlyStore } from '@echoperator/runtime';
import type { EventNotice } from '@echoperator/runtime/controller';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { type BareReconciler, reconcilerOf } from '../../../../packages/runtime/src/controller/define-controller.ts';
import { readConfig } from '../../../../src/config.ts';
import { ExternalSystemDownError } from '../../../../src/external/circuit.ts';
import { postgresWriterController } from '../../../../src/kinds/postgres-writer/controller.ts';
import { type PostgresWriter, postgresWriterFinalizer } from '../../../../src/kinds/postgres-writer/kind.ts';
import { type Table, tableText } from '../../../../src/kinds/postgres-writer/statements.ts';
import type { Tables } from '../../../../src/kinds/postgres-writer/tables.ts';

const silent: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => silent };
const key = { namespace: 'default', name: 'ada' };
const id = 'default/ada';

let writer: PostgresWriter;
/** The ids of the rows of each table. */
let rows: Map<string, Set<string>>;
/** The tables that cannot be used. */
let down: Set<string>;
let events: string[];
/** Called before a status write. */
let onStatusWrite: () => void;
/** Called after a status write: an error loses its answer. */
let afterStatusWrite: () => void;
let isFinalizerRemoved: boolean;
let reconciler: BareReconciler;

const client = {
  mergeStatus: async (_: unknown, __: unknown, patch: { readonly [name: string]: unknown }) => {
    onStatusWrite();
    const status = Object.entries({ ...writer.status, ...patch }).filter(([, value]) => value !== null);
    writer = { ...writer, status: Object.fromEntries(status) };
    afterStatusWrite();
    return writer;
  },
  patch: async () => {
    isFinalizerRemoved = true;
    return writer;
  },
} as unknown as Client;

/** Throws if the table cannot be used. */
function use(table: Table): Set<string> {
  const text = tableText(table);
  const now = new Date();
  const details = { since: now, failedAt: now, cause: new Error('locked'), retryAfterMs: 1000 };
  if (down.has(text)) throw new ExternalSystemDownError(`the table ${text}`, { reason: 'TableBusy', ...details });
  const ids = rows.get(text) ?? new Set();
  rows.set(text, ids);
  return ids;
}

const tables = {
  find: async ({ name }: { readonly name: string }) => ({ schema: 'public', name }),
  rowsOf: (table: Table) => ({
    upsert: async () => {
      const before = use(table).has(id);
      use(table).add(id);
      return before ? 'unchanged' : 'written';
    },
    delete: async () => void use(table).delete(id),
  }),
} as unknown as Tables;

const reconcile = () =>
  reconciler
    .reconcile(key, { client, signal: new AbortController().signal, log: silent })
    .catch((error: unknown) => error);

const ready = () => findCondition(writer.status?.conditions, 'Ready');
const tablesWithRow = () => [...rows].filter(([, ids]) => ids.has(id)).map(([table]) => table);

beforeEach(() => {
  rows = new Map();
  down = new Set();
  events = [];
  onStatusWrite = () => {};
  afterStatusWrite = () => {};
  isFinalizerRemoved = false;
  const { psql } = readConfig({});
  const state = { tables };
  reconciler = reconcilerOf(
    postgresWriterController({
      settings: { ...psql, host: 'unused' },
      workers: 1,
      resyncEveryMs: 120_000,
    }),
    {
      store: <C>() => ({ get: () => writer }) as unknown as ReadonlyStore<C & PostgresWriter>,
      indexName: (index) => index,
      applier: {} as Applier,
      events: { record: (_: unknown, __: unknown, { reason }: EventNotice) => void events.push(reason) },
      gate: { pass: () => {}, signal: new AbortController().signal },
      log: silent,
      state: () => state,
    },
  );
  writer = {
    metadata: {
      ...key,
      uid: 'u',
      resourceVersion: '1',
      creationTimestamp: '2026-01-01T00:00:00Z',
      generation: 3,
      finalizers: [postgresWriterFinalizer],
    },
    spec: { table: 'new', name: 'Ada', age: 36, country: 'GB' },
    status: { tables: ['public.locked', 'public.old'] },
  };
  rows.set('public.locked', new Set([id])).set('public.old', new Set([id]));
});

test('a row that may be in as many tables as the status can name is written to no other before it is deleted from one', async () => {
  const tables = Array.from({ length: 1000 }, (_, index) => `public.t${index}`);
  writer = { ...writer, status: { tables } };
  for (const table of tables) down.add(table);
  await reconcile();
  expect(ready()).toMatchObject({ reason: 'TableBusy', message: 'the table public.t0: locked' });
  expect([tablesWithRow().includes('public.new'), writer.status?.tables]).toEqual([false, tables]);
  down.delete('public.t1');
  await reconcile();
  expect([tablesWithRow().includes('public.new'), writer.status?.tables?.length]).toEqual([true, 1000]);
});

describe('tables in the status that are no list of texts', () => {
  const inStatus = (tables: unknown) => ({ tables }) as unknown as NonNullable<PostgresWriter['status']>;

  test.each(['public.old', 5, null, [], [null, 5], { old: true }])('count as none: %j', async (tables) => {
    rows.clear();
    writer = { ...writer, status: inStatus(tables) };
    await reconcile();
    expect([tablesWithRow(), ready()?.reason]).toEqual([['public.new'], 'RowWritten']);
    writer = {
      ...writer,
      metadata: { ...writer.metadata, deletionTimestamp: '2026-01-02T00:00:00Z' },
      status: inStatus(tables),
    };
    await reconcile();
    expect([tablesWithRow(), isFinalizerRemoved]).toEqual([[], true]);
  });
});

describe('a table that cannot be used does not keep the row in the other tables', () => {
  beforeEach(() => {
    down.add('public.locked');
  });

  test('when the row moves', async () => {
    await reconcile();
    expect(tablesWithRow()).toEqual(['public.locked', 'public.new']);
    expect(ready()).toMatchObject({
      reason: 'TableBusy',
      message: 'the row is in public.new; waiting to delete it from public.locked: the table public.locked: locked',
    });
    expect(writer.status?.tables).toEqual(['public.locked', 'public.new']);
    down.clear();
    await reconcile();
    expect([tablesWithRow(), writer.status?.tables]).toEqual([['public.new'], ['public.new']]);
  });

  test('when the PostgresWriter is deleted', async () => {
    writer = { ...writer, metadata: { ...writer.metadata, deletionTimestamp: '2026-01-02T00:00:00Z' } };
    await reconcile();
    expect(tablesWithRow()).toEqual(['public.locked']);
    expect(ready()).toMatchObject({
      reason: 'TableBusy',
      message: 'waiting to delete the row from public.locked: the table public.locked: locked',
    });
    expect([writer.status?.tables, isFinalizerRemoved]).toEqual([['public.locked'], false]);
    down.clear();
    await reconcile();
    expect([tablesWithRow(), isFinalizerRemoved]).toEqual([[], true]);
  });
});

describe('an Event is recorded once although the answer to the status write is lost', () => {
  /** Loses the answer to the status write that sets Ready to RowWritten. */
  const loseAnswer = () => {
    afterStatusWrite = () => {
      if (ready()?.reason !== 'RowWritten') return;
      afterStatusWrite = () => {};
      throw new Error('no answer');
    };
  };

  test('about a row that has moved', async () => {
    loseAnswer();
    expect(await reconcile()).toBeInstanceOf(Error);
    expect(events).toEqual([]);
    await reconcile();
    await reconcile();
    expect(events).toEqual(['RowMoved', 'RowWritten']);
  });

  test('also if the row was checked a moment ago', async () => {
    await reconcile();
    const status = { ...writer.status, conditions: [{ ...ready(), status: 'False', reason: 'DatabaseDown' }] };
    writer = { ...writer, status: status as NonNullable<PostgresWriter['status']> };
    loseAnswer();
    expect(await reconcile()).toBeInstanceOf(Error);
    events = [];
    await reconcile();
    expect(events).toEqual(['RowWritten']);
  });
});
