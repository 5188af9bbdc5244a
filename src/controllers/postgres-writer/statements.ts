import type { Row } from './row.ts';
import { type Table, type TableName, tableSql } from './table-name.ts';

/** SQL and its parameters. Nothing that a user wrote is in the text, but for a table's name, which is quoted. */
export interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** What any database answers that does. */
export const nothing: Statement = { text: 'SELECT', values: [] };

/**
 * Finds a table and its columns; no row says that there is none. A name without a schema is looked for in the schemas of the
 * search_path, in their order, as SQL would; the system's own are not among them. Where there is none of exactly that name,
 * that in lower case is taken, as SQL takes a name without quotes.
 */
export const findTable = ({ schema, name }: TableName): Statement => ({
  text: `
    SELECT n.nspname AS schema, c.relname AS name, ARRAY(
      SELECT a.attname::text FROM pg_catalog.pg_attribute a
      WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    ) AS columns
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname IN ($2, $4) AND c.relkind IN ('r', 'p', 'v', 'f')
      AND CASE WHEN $1::text IS NULL THEN n.nspname = ANY (pg_catalog.current_schemas(false)) ELSE n.nspname IN ($1, $3) END
    ORDER BY c.relname = $2 DESC, n.nspname IS NOT DISTINCT FROM $1 DESC,
      pg_catalog.array_position(pg_catalog.current_schemas(false), n.nspname)
    LIMIT 1`,
  values: [schema ?? null, name, schema === undefined ? null : lowerCase(schema), lowerCase(name)],
});

/** As PostgreSQL does it, where it knows of no other letters. */
const lowerCase = (text: string): string => text.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());

/**
 * Makes the rows be there, just so, in one statement, and returns those that were not, as they are now. A row that is as it
 * should be is read and nothing more: not locked, not written anew. Nor is one returned that a trigger skips.
 */
export function upsert(table: Table, rows: readonly Row[], lockTimeoutMs?: number): Statement {
  const limit = lockLimit(lockTimeoutMs, 5);
  return {
    text: `
      INSERT INTO ${tableSql(table)} (id, name, age, country)
      SELECT wanted.id, wanted.name, wanted.age, wanted.country
      ${differing(table)} ${limit.from === '' ? '' : `CROSS JOIN ${limit.from}`}
      WHERE ${isOtherwise}
      ON CONFLICT (id) DO UPDATE SET name = excluded.name, age = excluded.age, country = excluded.country
      RETURNING id::text, name::text, age::int, country::text`,
    values: [...columnsOf(rows), ...limit.values],
  };
}

/** Finds which of the rows are not there, just so. */
export const findOtherwise = (table: Table, rows: readonly Row[]): Statement => ({
  text: `SELECT wanted.id ${differing(table)} WHERE ${isOtherwise}`,
  values: columnsOf(rows),
});

/**
 * Each row is looked up by its key (LATERAL with a LIMIT, which no planner turns into a join): of a table that was never
 * analysed PostgreSQL would read all, for each hundred rows anew. In 10,000 rows a tenth of the time.
 */
const differing = (table: Table): string => `
      FROM unnest($1::text[], $2::text[], $3::int[], $4::text[]) AS wanted (id, name, age, country)
      LEFT JOIN LATERAL (
        SELECT id, name, age, country FROM ${tableSql(table)} AS each WHERE each.id = wanted.id LIMIT 1
      ) AS present ON true`;

/** Texts are compared byte by byte, whatever the collation takes for equal. */
const isOtherwise = `(
        present.id IS NULL
        OR present.name::text COLLATE "C" IS DISTINCT FROM wanted.name COLLATE "C"
        OR present.age IS DISTINCT FROM wanted.age
        OR present.country::text COLLATE "C" IS DISTINCT FROM wanted.country COLLATE "C")`;

const columnsOf = (rows: readonly Row[]): readonly unknown[] => [
  rows.map(({ id }) => id),
  rows.map(({ name }) => name),
  rows.map(({ age }) => age),
  rows.map(({ country }) => country),
];

/** Deletes rows, those that there are. */
export function deleteRows(table: Table, ids: readonly string[], lockTimeoutMs?: number): Statement {
  const limit = lockLimit(lockTimeoutMs, 2);
  const using = limit.from === '' ? '' : `USING ${limit.from}`;
  return {
    text: `DELETE FROM ${tableSql(table)} AS each ${using} WHERE each.id = ANY ($1::text[])`,
    values: [ids, ...limit.values],
  };
}

/**
 * Sets a time limit where it is joined to the rows of a query: for their locks, and to the end of the transaction. The lock of
 * the table is taken before, under the connection's own limit.
 */
const lockLimit = (ms: number | undefined, parameter: number): { readonly from: string; readonly values: string[] } =>
  ms === undefined
    ? { from: '', values: [] }
    : { from: `(SELECT pg_catalog.set_config('lock_timeout', $${parameter}, true)) AS limited`, values: [`${ms}`] };

/** Which connections of the role are meant: those of these names, and those of the prefix but for those of another one. */
export interface WhichBackends {
  readonly names: readonly string[];
  readonly prefix: string;
  readonly except: string;
}

/** One of them; without a pid where there is none. */
export interface Backend {
  readonly pid: number | null;
  /** Whether the server only follows another. */
  readonly standby: boolean;
}

const whichBackends = `
  pid <> pg_catalog.pg_backend_pid() AND datname = pg_catalog.current_database() AND usename = session_user
  AND (application_name = ANY ($1::text[])
    OR pg_catalog.starts_with(application_name, $2) AND NOT pg_catalog.starts_with(application_name, $3))`;

/** Finds them; there is a row also where there are none. */
export const findBackends = ({ names, prefix, except }: WhichBackends): Statement => ({
  text: `
    SELECT pid, pg_catalog.pg_is_in_recovery() AS standby
    FROM (SELECT) AS always LEFT JOIN pg_catalog.pg_stat_activity ON ${whichBackends}`,
  values: [names, prefix, except],
});

/** Ends them, and with each what is under way on it. */
export const terminateBackends = ({ names, prefix, except }: WhichBackends): Statement => ({
  text: `SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE ${whichBackends}`,
  values: [names, prefix, except],
});
