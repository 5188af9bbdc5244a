import type { Row } from './row.ts';
import { type Table, type TableName, tableSql } from './table-name.ts';

/** SQL and its parameters. Nothing that a user wrote is in the text, but for a table's name, which is quoted. */
export interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/**
 * Finds a table and its columns; no row says that there is none. A name without a schema is looked for in the schemas of the
 * search_path, in their order, as SQL would; the system's own are not among them.
 */
export const findTable = ({ schema, name }: TableName): Statement => ({
  text: `
    SELECT n.nspname AS schema, c.relname AS name, ARRAY(
      SELECT a.attname::text FROM pg_catalog.pg_attribute a
      WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    ) AS columns
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname = $2 AND c.relkind IN ('r', 'p', 'v', 'f')
      AND CASE WHEN $1::text IS NULL THEN n.nspname = ANY (pg_catalog.current_schemas(false)) ELSE n.nspname = $1 END
    ORDER BY pg_catalog.array_position(pg_catalog.current_schemas(false), n.nspname)
    LIMIT 1`,
  values: [schema ?? null, name],
});

/**
 * Makes the rows be there, just so, in one statement, and returns the ids of those that were not. A row that is as it should
 * be is read and nothing more: not locked, not written anew. Texts are compared byte by byte, whatever the collation takes
 * for equal.
 *
 * Each row is looked up by its key (LATERAL with a LIMIT, which no planner turns into a join): of a table that was never
 * analysed PostgreSQL would read all, for each hundred rows anew. In 10,000 rows a tenth of the time.
 */
export function upsert(table: Table, rows: readonly Row[]): Statement {
  const target = tableSql(table);
  return {
    text: `
      INSERT INTO ${target} (id, name, age, country)
      SELECT wanted.id, wanted.name, wanted.age, wanted.country
      FROM unnest($1::text[], $2::text[], $3::int[], $4::text[]) AS wanted (id, name, age, country)
      LEFT JOIN LATERAL (
        SELECT id, name, age, country FROM ${target} AS each WHERE each.id = wanted.id LIMIT 1
      ) AS present ON true
      WHERE present.id IS NULL
        OR present.name::text COLLATE "C" IS DISTINCT FROM wanted.name COLLATE "C"
        OR present.age IS DISTINCT FROM wanted.age
        OR present.country::text COLLATE "C" IS DISTINCT FROM wanted.country COLLATE "C"
      ON CONFLICT (id) DO UPDATE SET name = excluded.name, age = excluded.age, country = excluded.country
      RETURNING id`,
    values: [
      rows.map(({ id }) => id),
      rows.map(({ name }) => name),
      rows.map(({ age }) => age),
      rows.map(({ country }) => country),
    ],
  };
}

/** Deletes rows, those that there are. */
export const deleteRows = (table: Table, ids: readonly string[]): Statement => ({
  text: `DELETE FROM ${tableSql(table)} WHERE id = ANY ($1::text[])`,
  values: [ids],
});
