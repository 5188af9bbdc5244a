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
