import { Code, ConnectError } from '@connectrpc/connect';
import { describe, expect, test } from '@jest/globals';
import {
  failureOf,
  outageOf,
  RefusedError,
  whereLost,
  whereRefused,
  whereUnusable,
} from '../../../../src/controllers/pet/store-error.ts';

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
  expect(() => whereLost(broken)).toThrow(broken);
});

test('another error is no failed call', () => {
  expect(failureOf(new TypeError('no'))).toBeUndefined();
});

describe('what counts in one call alone', () => {
  const error = (code: Code) => new ConnectError('no', code);

  test('a refusal of the pet is no outage, and is not one of a search', () => {
    expect(() => whereRefused(error(Code.InvalidArgument))).toThrow(RefusedError);
    expect(() => whereRefused(error(Code.AlreadyExists))).toThrow(ConnectError);
  });

  test.each([Code.NotFound, Code.Internal])('code %d to a change may mean that there is no such pet', (code) => {
    expect(whereLost(error(code)).code).toBe(code);
    expect(() => whereLost(error(Code.ResourceExhausted))).toThrow(ConnectError);
  });

  test('a store that cannot be searched may be written to', () => {
    expect(whereUnusable(error(Code.PermissionDenied)).code).toBe(Code.PermissionDenied);
    expect(() => whereUnusable(error(Code.Unavailable))).toThrow(ConnectError);
  });
});
