import { keyOf, keyString } from '@echoperator/runtime';
import { quoteText } from '@echoperator/runtime/client';
import type { PostgresWriter } from './kind.ts';

/** The row of a PostgresWriter. */
export interface Row {
  /** The primary key. */
  readonly id: string;
  readonly name: string;
  readonly age: number;
  readonly country: string;
}

/** The columns that a table must have. */
export const rowColumns = ['id', 'name', 'age', 'country'] as const satisfies readonly (keyof Row)[];

/** The primary key of a PostgresWriter's row, `namespace/name`. It is unique in a cluster. */
export const rowIdOf = (writer: PostgresWriter): string => keyString(keyOf(writer));

export function rowOf(writer: PostgresWriter): Row {
  const { name, age, country } = writer.spec;
  return { id: rowIdOf(writer), name, age, country };
}

/**
 * The name of a table as a user writes it. Without a schema, PostgreSQL searches the schemas of the role's search_path.
 */
export interface TableName {
  readonly schema: string | undefined;
  readonly name: string;
}

/** A table of the database. */
export interface Table {
  readonly schema: string;
  readonly name: string;
}

/** The text is not the name of a table. */
export class InvalidTableNameError extends Error {
  override readonly name = 'InvalidTableNameError';
}

/** The longest name in PostgreSQL. It would truncate a longer one, and so find another table. */
const maxNameBytes = 63;

/** Two names in double quotes, with each character doubled, and the dot between them. */
const maxTextLength = 2 * (2 * maxNameBytes + 2) + 1;

/** One part and the dot after it, or the end. A part that does not begin with a quote extends to the next dot. */
const part = /^(?:"((?:[^"]|"")+)"|([^".][^.]*))(\.|$)/s;

/**
 * Parses the name of a table. Nothing in it is SQL, so `students; drop table students` is a valid name. Letters keep
 * their case.
 *
 * @throws InvalidTableNameError if the text has not one or two parts, or a part is too long.
 */
export function parseTableName(text: string): TableName {
  if (text.length > maxTextLength) throw invalid(text, `a name in PostgreSQL has at most ${maxNameBytes} bytes`);
  const parts: string[] = [];
  let rest = text;
  for (let more = true; more; ) {
    const [match = '', inQuotes, plain, end] = part.exec(rest) ?? [];
    if (match === '') throw invalid(text, 'expected one part, or two parts with a dot between them');
    parts.push(inQuotes?.replaceAll('""', '"') ?? plain ?? '');
    rest = rest.slice(match.length);
    more = end === '.';
  }
  const [name, schema, ...others] = parts.reverse();
  if (name === undefined || others.length > 0) {
    throw invalid(text, 'it has more than two parts. Put a part that contains a dot in double quotes');
  }
  if (parts.some((each) => Buffer.byteLength(each) > maxNameBytes)) {
    throw invalid(text, `a name in PostgreSQL has at most ${maxNameBytes} bytes`);
  }
  return { schema, name };
}

/** The text of a table's name, as {@link parseTableName} reads it. */
export const tableText = ({ schema, name }: TableName): string =>
  schema === undefined ? partText(name) : `${partText(schema)}.${partText(name)}`;

/** The SQL of a table's name. */
export const tableSql = ({ schema, name }: Table): string => `${quoted(schema)}.${quoted(name)}`;

const partText = (text: string): string => (text.includes('.') || text.startsWith('"') ? quoted(text) : text);

/** Quotes an identifier as in SQL: in double quotes, with each double quote in it doubled. */
const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`;

const invalid = (text: string, why: string): InvalidTableNameError =>
  new InvalidTableNameError(`${quoteText(text)} is not the name of a table: ${why}`);

/** SQL and its parameters. The only user input in the text is the name of a table, which is quoted. */
export interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** A statement that every database answers. */
export const ping: Statement = { text: 'SELECT', values: [] };

/**
 * The columns that a write needs a privilege on. Such a privilege may be granted on the table or on each of these
 * columns.
 */
const columnPrivileges: Readonly<Record<'SELECT' | 'INSERT' | 'UPDATE', readonly (keyof Row)[]>> = {
  SELECT: rowColumns,
  INSERT: rowColumns,
  UPDATE: ['name', 'age', 'country'],
};

/** The columns that a deletion reads. */
export const columnsToDelete = ['id'] as const satisfies readonly (keyof Row)[];

/** A table as {@link findTable} finds it. */
export interface FoundTable extends Table {
  readonly columns: readonly string[];
  /** The privileges that the role lacks to write and delete rows, such as `DELETE`, or `USAGE` on the schema. */
  readonly lacks: readonly string[];
  /** Those that it lacks only to delete rows. */
  readonly lacksToDelete: readonly string[];
}

/**
 * Finds a table, its columns and the privileges that the role lacks on it. Returns no row if there is no table. Like
 * SQL, searches for a name without a schema in the schemas of the search_path, in order, except system schemas. If no
 * table has exactly this name, takes the one with the name in lower case, as SQL does with a name without quotes.
 */
export const findTable = ({ schema, name }: TableName): Statement => ({
  text: `
    SELECT n.nspname AS schema, c.relname AS name, ARRAY(
      SELECT a.attname::text FROM pg_catalog.pg_attribute a
      WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    ) AS columns, ARRAY(
      ${Object.entries(columnPrivileges)
        .map(([privilege, columns]) => lacksOnColumns(privilege, columns))
        .join(' UNION ALL ')}
      ${lacksDeleteOrUsage}
    ) AS lacks, ARRAY(
      ${lacksOnColumns('SELECT', columnsToDelete)}
      ${lacksDeleteOrUsage}
    ) AS "lacksToDelete"
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname IN ($2, $4) AND c.relkind IN ('r', 'p', 'v', 'f')
      AND CASE WHEN $1::text IS NULL THEN n.nspname = ANY (pg_catalog.current_schemas(false)) ELSE n.nspname IN ($1, $3) END
    ORDER BY c.relname = $2 DESC, n.nspname IS NOT DISTINCT FROM $1 DESC,
      pg_catalog.array_position(pg_catalog.current_schemas(false), n.nspname)
    LIMIT 1`,
  values: [schema ?? null, name, schema === undefined ? null : lowerCase(schema), lowerCase(name)],
});

const lacksDeleteOrUsage = `
      UNION ALL SELECT 'DELETE' WHERE NOT pg_catalog.has_table_privilege(c.oid, 'DELETE')
      UNION ALL SELECT 'USAGE' WHERE NOT pg_catalog.has_schema_privilege(n.oid, 'USAGE')`;

/** Selects the privilege if the role has it neither on the table nor on each of the columns that exist. */
const lacksOnColumns = (privilege: string, columns: readonly string[]): string => `
      SELECT '${privilege}' WHERE NOT pg_catalog.has_table_privilege(c.oid, '${privilege}') AND EXISTS (
        SELECT FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = c.oid AND a.attname IN (${columns.map((column) => `'${column}'`).join(', ')})
          AND NOT a.attisdropped AND NOT pg_catalog.has_column_privilege(c.oid, a.attnum, '${privilege}')
      )`;

/** Whether {@link findTable} may find this table for the name. */
export function mayName(name: TableName, table: Table): boolean {
  const matches = (written: string, part: string): boolean => written === part || lowerCase(written) === part;
  return matches(name.name, table.name) && (name.schema === undefined || matches(name.schema, table.schema));
}

/** Converts ASCII letters to lower case, as PostgreSQL does in every locale. */
const lowerCase = (text: string): string => text.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());

/**
 * A row that was missing or different. `written`: it was written, and has these values now. Otherwise a trigger has
 * skipped it.
 */
export type UpsertedRow = (Row & { readonly written: true }) | { readonly id: string; readonly written: false };

/**
 * Inserts or updates a row. Returns an {@link UpsertedRow} if it was missing or different. Reads a row that already has
 * these values, but neither locks nor writes it. Without a row it changes nothing, but fails if the table cannot
 * contain such rows.
 */
export const upsert = (table: Table, row?: Row): Statement => ({
  text: `
    WITH different AS MATERIALIZED (
      SELECT wanted.id, wanted.name, wanted.age, wanted.country ${whereDifferent(table)}
    ), written AS (
      INSERT INTO ${tableSql(table)} (id, name, age, country)
      SELECT id, name, age, country FROM different
      ON CONFLICT (id) DO UPDATE SET name = excluded.name, age = excluded.age, country = excluded.country
      RETURNING id::text, name::text, age::int, country::text
    )
    SELECT different.id, written.id IS NOT NULL AS written, written.name, written.age, written.country
    FROM different LEFT JOIN written ON written.id COLLATE "C" = different.id COLLATE "C"`,
  values: valuesOf(row),
});

/** Returns the id of the row if it is missing or different. Without a row it returns nothing. */
export const findDifferent = (table: Table, row?: Row): Statement => ({
  text: `SELECT wanted.id ${whereDifferent(table)}`,
  values: valuesOf(row),
});

/**
 * Selects the wanted row if the table's row is missing or different. LATERAL with a LIMIT looks the row up by its key,
 * because no planner turns it into another join. Compares texts byte by byte: a collation may treat different texts as
 * equal.
 */
const whereDifferent = (table: Table): string => `
      FROM (SELECT $1::text AS id, $2::text AS name, $3::int AS age, $4::text AS country WHERE $1 IS NOT NULL) AS wanted
      LEFT JOIN LATERAL (
        SELECT id, name, age, country FROM ${tableSql(table)} AS each WHERE each.id = wanted.id LIMIT 1
      ) AS present ON true
      WHERE present.id IS NULL
        OR present.name::text COLLATE "C" IS DISTINCT FROM wanted.name COLLATE "C"
        OR present.age IS DISTINCT FROM wanted.age
        OR present.country::text COLLATE "C" IS DISTINCT FROM wanted.country COLLATE "C"`;

const valuesOf = (row?: Row): readonly unknown[] => rowColumns.map((column) => row?.[column] ?? null);

/**
 * Deletes the row with this id, if it exists. Without an id it changes nothing, but fails if the table cannot be used.
 */
export const deleteRow = (table: Table, id?: string): Statement => ({
  text: `DELETE FROM ${tableSql(table)} AS each WHERE each.id = $1::text`,
  values: [id ?? null],
});

/**
 * Selects connections of the role: those with one of `names`, and those that begin with `prefix` but not with `except`.
 */
export interface WhichBackends {
  readonly names: readonly string[];
  readonly prefix: string;
  readonly except: string;
}

/** A backend. If there is none, the query returns one row without a pid. */
export interface Backend {
  readonly pid: number | null;
  /** Whether the server is a standby. */
  readonly standby: boolean;
}

const whichBackends = `
  pid <> pg_catalog.pg_backend_pid() AND datname = pg_catalog.current_database() AND usename = session_user
  AND (application_name = ANY ($1::text[])
    OR pg_catalog.starts_with(application_name, $2) AND NOT pg_catalog.starts_with(application_name, $3))`;

/** Finds the selected backends. Always returns at least one row. */
export const findBackends = ({ names, prefix, except }: WhichBackends): Statement => ({
  text: `
    SELECT pid, pg_catalog.pg_is_in_recovery() AS standby
    FROM (SELECT) AS always LEFT JOIN pg_catalog.pg_stat_activity ON ${whichBackends}`,
  values: [names, prefix, except],
});

/** Terminates the selected backends and their statements. */
export const terminateBackends = ({ names, prefix, except }: WhichBackends): Statement => ({
  text: `SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE ${whichBackends}`,
  values: [names, prefix, except],
});
