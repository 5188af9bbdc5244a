import { Code, ConnectError } from '@connectrpc/connect';
import { expect, test } from '@jest/globals';
import { failureOf, outageOf, RefusedError, SearchRefusedError } from '../../../../src/kinds/pet/errors.ts';

test.each([
  [Code.Unavailable, 'down', 'PetStoreUnavailable'],
  [Code.DeadlineExceeded, 'down', 'PetStoreUnavailable'],
  [Code.Aborted, 'down', 'PetStoreUnavailable'],
  [Code.Canceled, 'down', 'PetStoreUnavailable'],
  [Code.Internal, 'unusable', 'PetStoreFailed'],
  [Code.PermissionDenied, 'unusable', 'PetStoreFailed'],
  [Code.Unauthenticated, 'unusable', 'PetStoreFailed'],
  [Code.ResourceExhausted, 'unusable', 'PetStoreFailed'],
  [Code.Unimplemented, 'unusable', 'PetStoreFailed'],
  [Code.DataLoss, 'unusable', 'PetStoreFailed'],
  [Code.InvalidArgument, 'refused', undefined],
  [Code.NotFound, 'unknown', undefined],
  [Code.AlreadyExists, 'failed', undefined],
  [Code.FailedPrecondition, 'failed', undefined],
])('code %d means %s, and for all Pets %s', (code, failure, outage) => {
  expect(failureOf(new ConnectError('no', code))).toBe(failure);
  expect(outageOf(new ConnectError('no', code))).toBe(outage);
});

test('an error of the connection itself means that the store is down, whatever code it was given', () => {
  const broken = new ConnectError('no', Code.Internal, undefined, undefined, new Error('EPIPE'));
  expect(failureOf(broken)).toBe('down');
});

test('another error is not a failed call', () => {
  expect(failureOf(new TypeError('no'))).toBeUndefined();
});

test('a refusal of one pet or of a search is not an outage', () => {
  expect([failureOf(new RefusedError('no')), outageOf(new RefusedError('no'))]).toEqual(['refused', undefined]);
  expect([failureOf(new SearchRefusedError('no')), outageOf(new SearchRefusedError('no'))]).toEqual([
    'failed',
    undefined,
  ]);
});
