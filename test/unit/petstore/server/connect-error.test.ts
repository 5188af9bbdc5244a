import { Code } from '@connectrpc/connect';
import { cutText } from '@echoperator/runtime/client';
import { expect, test } from '@jest/globals';
import { asConnectError } from '../../../../packages/petstore/src/server/connect-error.ts';
import {
  InvalidRequestError,
  RequestIdTakenError,
  TooBusyError,
  UnknownPetError,
} from '../../../../packages/petstore/src/server/errors.ts';

/** As node:sqlite throws it, with an extended result code. */
const sqlite = (errcode: number) => Object.assign(new Error('no'), { code: 'ERR_SQLITE_ERROR', errcode });

test.each([
  [new InvalidRequestError('no'), Code.InvalidArgument, false],
  [new UnknownPetError('no'), Code.NotFound, false],
  [new RequestIdTakenError('no'), Code.AlreadyExists, false],
  [new TooBusyError('no'), Code.ResourceExhausted, false],
  // SQLITE_BUSY_SNAPSHOT, SQLITE_IOERR_WRITE, SQLITE_READONLY, SQLITE_FULL, SQLITE_CORRUPT_VTAB
  [sqlite(517), Code.Unavailable, true],
  [sqlite(778), Code.Unavailable, true],
  [sqlite(8), Code.Unavailable, true],
  [sqlite(13), Code.ResourceExhausted, true],
  [sqlite(267), Code.DataLoss, true],
  [new TypeError('no'), Code.Internal, true],
])('%s is told as code %d', (error, code, isOurs) => {
  const told = asConnectError(error);
  expect(told.code).toBe(code);
  // What the log is to say.
  expect(told.cause).toBe(isOurs ? error : undefined);
});

test.each(['\ud83d', `${'x'.repeat(4095)}\u{1f431}`])('gRPC can encode the cut text', (text) => {
  const { rawMessage, code } = asConnectError(new UnknownPetError(cutText(text)));
  expect(code).toBe(Code.NotFound);
  expect(() => encodeURIComponent(rawMessage)).not.toThrow();
});
