import { expect, test } from '@jest/globals';
import { kinds } from '../../src/api/index.ts';
import { customResourceDefinition } from '../../src/runtime/index.ts';

test('each CRD has the short name that users type', () => {
  const shortNames = kinds.map((kind) => [kind.kind, customResourceDefinition(kind).spec.names.shortNames]);
  expect(Object.fromEntries(shortNames)).toEqual({
    Echo: ['ec'],
    ScheduledEcho: ['sec'],
    PodSet: ['pset'],
    BookStore: ['bs'],
    PostgresWriter: ['pgw'],
    Pet: ['pt'],
  });
});
