import { describe, expect, test } from '@jest/globals';
import type { PostgresWriter } from '../../../../src/api/index.ts';
import { OutsideDownError } from '../../../../src/controllers/outside/index.ts';
import { RowBusyError, RowRefusedError } from '../../../../src/controllers/postgres-writer/faults.ts';
import {
  findingOf,
  readyReport,
  TableNotAllowedError,
} from '../../../../src/controllers/postgres-writer/postgres-writer-status.ts';
import { parseTableName } from '../../../../src/controllers/postgres-writer/table-name.ts';

describe('an error means', () => {
  test('of a system outside its reason and its words, and when to ask again', () => {
    const details = { reason: 'DatabaseDown', since: new Date(), cause: new Error('reset'), retryAfterMs: 1234 };
    expect(findingOf(new OutsideDownError('the database db', details))).toEqual({
      reason: 'DatabaseDown',
      message: 'the database db: reset',
      retryAfterMs: 1234,
    });
  });

  test('of the spec that only another spec helps', () => {
    const invalid = (() => {
      try {
        return parseTableName('a.b.c');
      } catch (error) {
        return error;
      }
    })();
    expect(findingOf(invalid)).toMatchObject({ reason: 'InvalidTable', message: expect.stringContaining('"a.b.c"') });
    expect(findingOf(invalid)).not.toHaveProperty('retryAfterMs');
    expect(findingOf(new TableNotAllowedError('no'))).toEqual({ reason: 'TableNotAllowed', message: 'no' });
  });

  test('of a row what the database says of it', () => {
    const message = 'the database refuses the row: violates check constraint "c"';
    expect(findingOf(new RowRefusedError(message))).toEqual({ reason: 'RowRefused', message });
  });

  test('of a lock that it is tried again soon', () => {
    expect(findingOf(new RowBusyError('locked'), () => 0.5)).toEqual({
      reason: 'TableBusy',
      message: 'locked',
      retryAfterMs: 7500,
    });
  });

  test('nothing that a status could tell', () => {
    for (const error of [new TypeError('x'), undefined, 'text']) expect(findingOf(error)).toBeUndefined();
  });
});

describe('the status', () => {
  const writer: PostgresWriter = {
    metadata: {
      name: 'jane',
      namespace: 'default',
      uid: 'u',
      resourceVersion: '1',
      creationTimestamp: '2026-01-01T00:00:00Z',
      generation: 3,
    },
    spec: { table: 'students', name: 'Jane', age: 21, country: 'Peru' },
    status: { tables: ['public.old'], conditions: [] },
  };
  const now = new Date('2026-01-02T03:04:05Z');

  test('says where the row is, of which generation, and whether a person should look', () => {
    const report = readyReport(writer, { reason: 'RowWritten', message: 'there' }, ['public.students'], now);
    expect(report).toMatchObject({ reason: 'RowWritten', isWarning: false });
    expect(report.status).toEqual({
      tables: ['public.students'],
      observedGeneration: 3,
      conditions: [
        {
          type: 'Ready',
          status: 'True',
          reason: 'RowWritten',
          message: 'there',
          observedGeneration: 3,
          lastTransitionTime: '2026-01-02T03:04:05Z',
        },
      ],
    });
    expect(readyReport(writer, { reason: 'TableBusy', message: 'm' }, [], now)).toMatchObject({
      isWarning: true,
      status: { tables: null, conditions: [{ status: 'False' }] },
    });
  });
});
