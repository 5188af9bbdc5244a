import { describe, expect, test } from '@jest/globals';
import {
  ConnectionFailedError,
  CredentialsError,
  databaseReasonOf,
  sqlStateOf,
  tableReasonOf,
  UnfitTableError,
} from '../../../../src/kinds/postgres-writer/errors.ts';

/** As the client library throws what PostgreSQL says. */
const refusal = (code: string, message = 'no'): Error => Object.assign(new Error(message), { code, severity: 'ERROR' });
const ofNode = (code: string, message = ''): Error => Object.assign(new Error(message), { code });

describe('an error', () => {
  test.each([
    ['57P01', 'DatabaseDown', undefined],
    ['57P03', 'DatabaseDown', undefined],
    ['08006', 'DatabaseDown', undefined],
    ['53300', 'DatabaseDown', undefined],
    ['58030', 'DatabaseDown', undefined],
    ['25006', 'DatabaseDown', undefined],
    ['28P01', 'AccessDenied', undefined],
    ['28000', 'AccessDenied', undefined],
    ['3D000', 'DatabaseMissing', undefined],
    ['42P01', undefined, 'TableMissing'],
    ['3F000', undefined, 'TableMissing'],
    ['42703', undefined, 'ColumnMissing'],
    ['42501', undefined, 'PermissionDenied'],
    ['55P03', undefined, 'TableBusy'],
    ['57014', undefined, 'TableBusy'],
    ['40P01', undefined, 'TableBusy'],
    ['42P10', undefined, 'TableUnsuitable'],
    ['XX000', undefined, 'TableUnsuitable'],
    ['22001', undefined, 'TableUnsuitable'],
    ['23514', undefined, 'TableUnsuitable'],
    ['MY001', undefined, 'TableUnsuitable'],
  ] as const)('of SQLSTATE %s: %s, %s', (code, database, table) => {
    const error = refusal(code);
    expect([databaseReasonOf(error), tableReasonOf(error)]).toEqual([database, table]);
  });

  test('of the connection is an outage, and has a message even if Node gives none', () => {
    const refused = new ConnectionFailedError(
      new AggregateError([ofNode('ECONNREFUSED', 'connect ECONNREFUSED ::1:5432'), ofNode('ECONNREFUSED')]),
    );
    expect(databaseReasonOf(refused)).toBe('DatabaseDown');
    expect(refused.message).toBe('connect ECONNREFUSED ::1:5432; ECONNREFUSED');
    expect(databaseReasonOf(new ConnectionFailedError(new Error('timeout expired')))).toBe('DatabaseDown');
  });

  test.each([
    ofNode('SELF_SIGNED_CERT_IN_CHAIN'),
    ofNode('ERR_TLS_CERT_ALTNAME_INVALID'),
    ofNode('UNABLE_TO_VERIFY_LEAF_SIGNATURE'),
    ofNode('CERT_HAS_EXPIRED'),
    new Error('The server does not support SSL connections'),
    new Error('There was an error establishing an SSL connection'),
  ])('of TLS: %s', (cause) => {
    expect(databaseReasonOf(new ConnectionFailedError(cause))).toBe('TlsRefused');
  });

  test('of pg_hba.conf rules that require TLS is recognised', () => {
    const message = 'no pg_hba.conf entry for host "10.0.0.1", user "writer", database "postgres", no encryption';
    expect(databaseReasonOf(refusal('28000', message))).toBe('TlsRefused');
  });

  test('of the settings or of the table in the catalogue is recognised', () => {
    expect(databaseReasonOf(new CredentialsError('no file'))).toBe('CredentialsMissing');
    expect(tableReasonOf(new UnfitTableError('ColumnMissing', 'no column'))).toBe('ColumnMissing');
  });

  test('of the program itself is none of these', () => {
    for (const error of [new TypeError('x is not a function'), ofNode('EPIPE'), 'text', undefined]) {
      expect([sqlStateOf(error), databaseReasonOf(error), tableReasonOf(error)]).toEqual([
        undefined,
        undefined,
        undefined,
      ]);
    }
  });
});
