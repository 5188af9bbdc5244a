import { defineKind, type ObjectOf } from '@echoperator/runtime';
import * as Type from 'typebox';
import { limits } from '../shared/limits.ts';

/** A PostgreSQL text cannot contain NUL. */
const withoutNul = '^[^\\x00]*$';

/** Keeps a row in a table of a PostgreSQL database. */
export const PostgresWriter = defineKind({
  group: 'demo.yash.com',
  version: 'v1',
  kind: 'PostgresWriter',
  plural: 'postgreswriters',
  shortNames: ['pgw'],
  description:
    'PostgresWriter keeps one row in a table of the PostgreSQL database that the operator is configured for. The primary key of the row, in the column `id`, is `namespace/name`. The operator inserts, updates and deletes the row with the PostgresWriter.',
  spec: Type.Object(
    {
      table: Type.String({
        minLength: 1,
        maxLength: 256,
        pattern: withoutNul,
        description:
          'The name of the table, `students`, or with its schema, `school.students`. Upper and lower case matter. Put a part that contains a dot or begins with a double quote in double quotes, and double each double quote in it. The table needs the columns id (its primary key), name, age and country. If this field changes, the operator moves the row.',
      }),
      name: Type.String({
        maxLength: 65_536,
        pattern: withoutNul,
        description: 'The value of the column `name`.',
      }),
      age: Type.Integer({
        format: 'int32',
        minimum: 0,
        maximum: 2147483647,
        description: 'The value of the column `age`.',
      }),
      country: Type.String({
        maxLength: 65_536,
        pattern: withoutNul,
        description: 'The value of the column `country`.',
      }),
    },
    { description: 'The row and its table.' },
  ),
  status: Type.Object(
    {
      tables: Type.Optional(
        // Two names of 63 bytes, in quotes and with each quote doubled, have 257 characters.
        Type.Array(Type.String({ maxLength: 1024 }), {
          maxItems: limits.tables,
          'x-kubernetes-list-type': 'set',
          description:
            'Every table that may contain the row, with its schema. The operator adds a table before the first statement on it, and removes it when the row is certainly deleted from it.',
        }),
      ),
    },
    { description: 'The location of the row.' },
  ),
  printerColumns: [
    { name: 'Table', type: 'string', jsonPath: '.spec.table' },
    { name: 'Ready', type: 'string', jsonPath: ".status.conditions[?(@.type=='Ready')].status" },
    { name: 'Reason', type: 'string', jsonPath: ".status.conditions[?(@.type=='Ready')].reason" },
    { name: 'Name', type: 'string', jsonPath: '.spec.name', priority: 1 },
    { name: 'Row Age', type: 'integer', jsonPath: '.spec.age', priority: 1 },
    { name: 'Country', type: 'string', jsonPath: '.spec.country', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
});

/** A PostgresWriter as the API server stores it. */
export type PostgresWriter = ObjectOf<typeof PostgresWriter>;

/** The finalizer of a PostgresWriter: it stays until its row is deleted. */
export const postgresWriterFinalizer = 'finalizers.postgreswriters.demo.yash.com/cleanup-row';
