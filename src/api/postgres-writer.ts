import * as Type from 'typebox';
import { defineKind, type ObjectOf } from '../runtime/index.ts';

/** PostgreSQL keeps no NUL in a text. */
const withoutNul = '^[^\\x00]*$';

/** Keeps a row in a table of a PostgreSQL database. */
export const PostgresWriter = defineKind({
  group: 'demo.yash.com',
  version: 'v1',
  kind: 'PostgresWriter',
  plural: 'postgreswriters',
  shortNames: ['pgw'],
  description:
    'PostgresWriter keeps one row in a table of the PostgreSQL database that the operator is configured for. The row’s primary key, in the column `id`, is `namespace/name`; with the PostgresWriter it is made, changed and deleted.',
  spec: Type.Object(
    {
      table: Type.String({
        minLength: 1,
        maxLength: 256,
        pattern: withoutNul,
        description:
          'The table, exactly as the database has its name: `students`, or with its schema `school.students`. A part that holds a dot, or begins with a double quote, stands in double quotes, and each double quote in it is doubled. The table has the columns id (its primary key), name, age and country. Another table moves the row.',
      }),
      name: Type.String({
        maxLength: 65_536,
        pattern: withoutNul,
        description: 'What the column `name` holds.',
      }),
      age: Type.Integer({
        format: 'int32',
        minimum: 0,
        maximum: 2147483647,
        description: 'What the column `age` holds.',
      }),
      country: Type.String({
        maxLength: 65_536,
        pattern: withoutNul,
        description: 'What the column `country` holds.',
      }),
    },
    { description: 'The row, and the table that it is in.' },
  ),
  status: Type.Object(
    {
      tables: Type.Optional(
        Type.Array(Type.String(), {
          'x-kubernetes-list-type': 'set',
          description:
            'Every table that may hold the row, with its schema. A table is named here before the first statement on it, and until the row is out of it for certain.',
        }),
      ),
    },
    { description: 'Where the row is.' },
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

/** What keeps one from going before its row is deleted. */
export const postgresWriterFinalizer = 'finalizers.postgreswriters.demo.yash.com/cleanup-row';
