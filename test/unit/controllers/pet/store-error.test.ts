import { Code, ConnectError } from '@connectrpc/connect';
import { expect, test } from '@jest/globals';
import { failureOf } from '../../../../src/controllers/pet/store-error.ts';

test.each([
  [Code.Unavailable, 'down'],
  [Code.DeadlineExceeded, 'down'],
  [Code.Aborted, 'down'],
  [Code.Canceled, 'down'],
  [Code.InvalidArgument, 'refused'],
  [Code.NotFound, 'unknown'],
  [Code.Internal, 'failed'],
  [Code.PermissionDenied, 'failed'],
  [Code.Unauthenticated, 'failed'],
  [Code.ResourceExhausted, 'failed'],
  [Code.Unimplemented, 'failed'],
])('code %d means %s', (code, failure) => {
  expect(failureOf(new ConnectError('no', code))).toBe(failure);
});

test('an error of the connection itself means that the store is down, whatever code it was given', () => {
  const broken = new ConnectError('no', Code.Internal, undefined, undefined, new Error('EPIPE'));
  expect(failureOf(broken)).toBe('down');
});

test('another error is no failed call', () => {
  expect(failureOf(new TypeError('no'))).toBeUndefined();
});
