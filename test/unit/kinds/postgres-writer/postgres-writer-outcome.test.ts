import { describe, expect, test } from '@jest/globals';
import { ExternalSystemDownError } from '../../../../src/external/circuit.ts';
import { RowBusyError, RowRefusedError, TableNotAllowedError } from '../../../../src/kinds/postgres-writer/errors.ts';
import type { PostgresWriter } from '../../../../src/kinds/postgres-writer/kind.ts';
import { failureOutcome, hasWaitingWriter } from '../../../../src/kinds/postgres-writer/reasons.ts';
import { parseTableName } from '../../../../src/kinds/postgres-writer/statements.ts';

test.each([
  [[], false],
  [['RowWritten', 'TableMissing', 'InvalidTable'], false],
  [['RowWritten', 'DatabaseDown'], true],
  [['AccessDenied'], true],
])('of PostgresWriters with the reasons %j, one waits for the database: %j', (reasons, isWaiting) => {
  const writers = reasons.map(
    (reason) => ({ status: { conditions: [{ type: 'Ready', reason }] } }) as unknown as PostgresWriter,
  );
  expect(hasWaitingWriter({ list: () => writers })).toBe(isWaiting);
});

describe('the outcome of an error', () => {
  test('of an external system has its reason, its message and a delay', () => {
    const now = new Date();
    const cause = new Error('reset');
    const details = { reason: 'DatabaseDown', since: now, failedAt: now, cause, retryAfterMs: 1234 };
    expect(failureOutcome(new ExternalSystemDownError('the database db', details))).toEqual({
      reason: 'DatabaseDown',
      message: 'the database db: reset',
      requeueAfterMs: 1234,
    });
  });

  test('of the spec causes no retry', () => {
    const invalid = (() => {
      try {
        return parseTableName('a.b.c');
      } catch (error) {
        return error;
      }
    })();
    expect(failureOutcome(invalid)).toMatchObject({
      reason: 'InvalidTable',
      message: expect.stringContaining('"a.b.c"'),
    });
    expect(failureOutcome(invalid)).not.toHaveProperty('requeueAfterMs');
    expect(failureOutcome(new TableNotAllowedError('no'))).toEqual({ reason: 'TableNotAllowed', message: 'no' });
  });

  test('of a row has the message of the database', () => {
    const message = 'the database refuses the row: violates check constraint "c"';
    expect(failureOutcome(new RowRefusedError(message))).toEqual({ reason: 'RowRefused', message });
  });

  test('of a lock causes an early retry', () => {
    expect(failureOutcome(new RowBusyError('locked'), () => 0.5)).toEqual({
      reason: 'TableBusy',
      message: 'locked',
      requeueAfterMs: 7500,
    });
  });

  test('is undefined for any other error', () => {
    for (const error of [new TypeError('x'), undefined, 'text']) expect(failureOutcome(error)).toBeUndefined();
  });
});
