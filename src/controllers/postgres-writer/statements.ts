import type { PostgresWriter } from '../../api/index.ts';
import { keyOf, keyString } from '../../runtime/index.ts';

/** What a PostgresWriter keeps in its table. */
export interface Row {
  /** The primary key. */
  readonly id: string;
  readonly name: string;
  readonly age: number;
  readonly country: string;
}

/** The columns that a table has to have. */
export const rowColumns = ['id', 'name', 'age', 'country'] as const satisfies readonly (keyof Row)[];

/** `namespace/name`: no two PostgresWriters of a cluster have one. */
export const rowIdOf = (writer: PostgresWriter): string => keyString(keyOf(writer));

export function rowOf(writer: PostgresWriter): Row {
  const { name, age, country } = writer.spec;
  return { id: rowIdOf(writer), name, age, country };
}

/** A table as somebody names it: without a schema it is looked for along the role's search_path. */
export interface TableName {
  readonly schema: string | undefined;
  readonly name: string;
}

/** A table as the database has it. */
export interface Table {
  readonly schema: string;
  readonly name: string;
}

/** What was written is no table's name. */
export class InvalidTableNameError extends Error {
  override readonly name = 'InvalidTableNameError';
}

/** What PostgreSQL keeps of a name. What is longer it would cut, and so find another table. */
const maxNameBytes = 63;

/** One part, and the dot after it or the end. What begins without a quote is taken as it is, up to the next dot. */
const part = /^(?:"((?:[^"]|"")+)"|([^".][^.]*))(\.|$)/s;

/**
 * Reads a table's name. Nothing in it is SQL, and letters keep their case: `students; drop table students` is a name as good
 * as any.
 *
 * @throws InvalidTableNameError
 */
export function parseTableName(text: string): TableName {
  const parts: string[] = [];
  let rest = text;
  for (let more = true; more; ) {
    const [match = '', inQuotes, plain, end] = part.exec(rest) ?? [];
    if (match === '') throw invalid(text, 'it is made of one part, or of two with a dot between them');
    parts.push(inQuotes?.replaceAll('""', '"') ?? plain ?? '');
    rest = rest.slice(match.length);
    more = end === '.';
  }
  const [name, schema, ...others] = parts.reverse();
  if (name === undefined || others.length > 0) {
    throw invalid(text, 'it has more than two parts; one with a dot in it stands in double quotes');
  }
  if (parts.some((each) => Buffer.byteLength(each) > maxNameBytes)) {
    throw invalid(text, `PostgreSQL has no name of more than ${maxNameBytes} bytes`);
  }
  return { schema, name };
}

/** Writes a table's name so that {@link parseTableName} reads it. */
export const tableText = ({ schema, name }: TableName): string =>
  schema === undefined ? partText(name) : `${partText(schema)}.${partText(name)}`;

/** Writes a table's name as SQL. */
export const tableSql = ({ schema, name }: Table): string => `${quoted(schema)}.${quoted(name)}`;

const partText = (text: string): string => (text.includes('.') || text.startsWith('"') ? quoted(text) : text);

/** As SQL has it: all that is between double quotes is a name, where each double quote in it is doubled. */
const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`;

const invalid = (text: string, why: string): InvalidTableNameError =>
  new InvalidTableNameError(`${JSON.stringify(text)} is no name of a table: ${why}`);

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
