import {
  ApiError,
  isAlreadyExists,
  isConflict,
  isExpired,
  isForbidden,
  isInvalid,
  isInvalidField,
  isNamespaceTerminating,
  isNotFound,
  isRefusal,
  isUidMismatch,
  isUnauthorized,
} from '@echoperator/runtime/client';
import { describe, expect, test } from '@jest/globals';
import { pino } from 'pino';

const error = (code: number, reason?: string, details?: object): ApiError =>
  new ApiError('GET /x', code, { ...(reason !== undefined && { reason }), ...(details && { details }) });

const said = (code: number, reason: string | undefined, message: string): ApiError =>
  new ApiError('POST /x', code, { ...(reason !== undefined && { reason }), message });

test("the message contains the request, the code, the reason and the server's message", () => {
  const refused = new ApiError('POST /api/v1/pods', 403, { reason: 'Forbidden', message: 'exceeded quota' });
  expect(refused.message).toBe('POST /api/v1/pods: 403 Forbidden: exceeded quota');
  expect(refused).toMatchObject({ name: 'ApiError', code: 403, reason: 'Forbidden', request: 'POST /api/v1/pods' });
  expect(new ApiError('GET /x', 502, {}).message).toBe('GET /x: 502 Unknown: no message');
});

test('the message is one line with each cause exactly once', () => {
  const causes = [
    { field: 'spec.size', message: 'Invalid value: 0: too small' },
    { field: 'spec.colour', message: 'Required value' },
    { message: 'and more' },
    { reason: 'NamespaceTerminating' },
  ];
  const message = 'Widget "a" is invalid:\n  spec.size: Invalid value: 0: too small';
  const refused = new ApiError('POST /x', 422, { reason: 'Invalid', message, details: { causes } });
  expect(refused.message).toBe(
    'POST /x: 422 Invalid: Widget "a" is invalid: spec.size: Invalid value: 0: too small; spec.colour: Required value; and more',
  );
  expect(refused.causes).toEqual(causes);
});

test('a blank line is one space, and a cause that is no object is dropped', () => {
  expect(new ApiError('GET /x', 500, { message: 'a\n \n\nb\n' }).message).toBe('GET /x: 500 Unknown: a b');
  const refused = new ApiError(
    'GET /x',
    500,
    JSON.parse('{"message":"m","details":{"causes":[null,{"message":"c"}]}}'),
  );
  expect(refused.message).toBe('GET /x: 500 Unknown: m; c');
});

test('a logger prints the message and the stack, but not the Status and the request', () => {
  const lines: string[] = [];
  const log = pino({}, { write: (line) => lines.push(line) });
  log.error({ err: error(409, 'Conflict', { causes: [] }) }, 'failed');
  const sentence = 'exceeded quota of everything';
  log.error({ err: new ApiError('POST /x', 403, { reason: 'Forbidden', message: sentence }) }, 'failed');
  const { err } = JSON.parse(lines[1] ?? '') as { err: Record<string, string> };
  const { message, stack, ...rest } = err;
  expect(message).toBe(`POST /x: 403 Forbidden: ${sentence}`);
  expect(stack).toContain(sentence);
  expect(rest).toEqual({ type: 'ApiError', name: 'ApiError', code: 403, reason: 'Forbidden' });
});

test('has the seconds after which the server asks for a retry', () => {
  expect(error(429, 'TooManyRequests', { retryAfterSeconds: 3 }).retryAfterSeconds).toBe(3);
  expect(new ApiError('GET /x', 429, {}, 7).retryAfterSeconds).toBe(7);
  expect(error(429).retryAfterSeconds).toBeUndefined();
});

describe('predicates', () => {
  const terminating = error(403, 'Forbidden', { causes: [{ reason: 'NamespaceTerminating' }] });
  const samples: Readonly<Record<string, unknown>> = {
    notFound: error(404, 'NotFound'),
    alreadyExists: error(409, 'AlreadyExists'),
    conflict: error(409, 'Conflict'),
    expired: error(410, 'Expired'),
    gone: error(410, 'Gone'),
    expiredByCode: error(410),
    forbidden: error(403, 'Forbidden'),
    invalid: error(422, 'Invalid'),
    otherUid: error(422, 'Invalid', { causes: [{ reason: 'FieldValueInvalid', field: 'metadata.uid' }] }),
    unauthorized: error(401, 'Unauthorized'),
    badRequest: error(400, 'BadRequest'),
    tooLarge: error(413, 'RequestEntityTooLarge'),
    tooMany: error(429, 'TooManyRequests'),
    // The API server's own overload protection answers in plain text.
    tooManyByCode: error(429),
    timeout: error(504, 'Timeout'),
    serverTimeout: error(500, 'ServerTimeout'),
    terminating,
    webhookDown: said(
      500,
      'InternalError',
      'Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: Post "https://a.b.svc:443/": dial tcp 10.0.0.1:443: connect: connection refused',
    ),
    webhookDenied: said(451, undefined, 'admission webhook "a.example.com" denied the request: not today'),
    webhookDeniedSilently: said(
      503,
      undefined,
      'admission webhook "a.example.com" denied the request without explanation',
    ),
    policyUnauthorized: said(
      401,
      'Unauthorized',
      "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not today",
    ),
    webhookConflict: said(409, 'Conflict', 'admission webhook "a.example.com" denied the request: busy'),
    internal: said(500, 'InternalError', 'Internal error occurred: etcd is down'),
    // A route that a proxy does not know is not an object that is gone.
    bareNotFound: error(404),
    another: new Error('NotFound'),
    none: undefined,
  };

  const refusals = [
    'forbidden',
    'invalid',
    'otherUid',
    'badRequest',
    'tooLarge',
    'webhookDown',
    'webhookDenied',
    'webhookDeniedSilently',
    'policyUnauthorized',
    'webhookConflict',
  ];

  test.each<[string, (candidate: unknown) => boolean, readonly string[]]>([
    ['isNotFound', isNotFound, ['notFound']],
    ['isAlreadyExists', isAlreadyExists, ['alreadyExists']],
    ['isConflict', isConflict, ['conflict']],
    ['isExpired', isExpired, ['expired', 'gone', 'expiredByCode']],
    ['isInvalid', isInvalid, ['invalid', 'otherUid']],
    ['isInvalidField', isInvalidField, ['otherUid']],
    ['isUidMismatch', isUidMismatch, ['otherUid']],
    ['isRefusal', isRefusal, refusals],
    ['isForbidden', isForbidden, ['forbidden', 'terminating']],
    ['isUnauthorized', isUnauthorized, ['unauthorized']],
    ['isNamespaceTerminating', isNamespaceTerminating, ['terminating']],
  ])('%s', (_, predicate, expected) => {
    expect(Object.keys(samples).filter((name) => predicate(samples[name]))).toEqual(expected);
  });

  test('hasCause finds a reason in any cause', () => {
    const causes = [{ reason: 'FieldValueInvalid', field: 'spec.a' }, { reason: 'NamespaceTerminating' }, {}];
    expect(error(422, 'Invalid', { causes }).hasCause('NamespaceTerminating')).toBe(true);
    expect(error(422, 'Invalid', { causes }).hasCause('FieldValueRequired')).toBe(false);
    expect(error(422, 'Invalid', {}).hasCause('FieldValueRequired')).toBe(false);
    expect(error(422, 'Invalid').hasCause('FieldValueRequired')).toBe(false);
  });
});

describe('a text from external', () => {
  const size = 250_000;

  test.each([
    ['blanks', ' '.repeat(size)],
    ['blank lines', '\n '.repeat(size / 2)],
    ['letters', 'x'.repeat(size)],
    ['surrogates', '\u{1f600}'.repeat(size / 2)],
  ])('of %s is cut before a pattern or a log line gets it', (_, text) => {
    const message = `CronJob.batch "a" is invalid: spec.schedule: Invalid value: "${text}": bad`;
    const causes = Array.from({ length: 9000 }, (_each, n) => ({
      reason: 'FieldValueInvalid',
      field: `f${n}`,
      message: text,
    }));
    const startedAtMs = performance.now();
    const refused = new ApiError('POST /x', 422, { reason: 'Invalid', message, details: { causes } });
    const lines: string[] = [];
    pino({}, { write: (line) => lines.push(line) }).error({ err: refused }, 'failed');
    expect(performance.now() - startedAtMs).toBeLessThan(2000);
    expect(lines.join('').length).toBeLessThan(20_000);
    expect(refused.message).toMatch(/^POST \/x: 422 Invalid: CronJob\.batch "a" is invalid: spec\.schedule/);
    expect(refused.message.length).toBeLessThan(4200);
    expect(refused.message.isWellFormed()).toBe(true);
    expect(JSON.stringify(refused.status).length).toBeLessThan(250_000);
    expect(isInvalid(refused)).toBe(true);
  });

  test('that is short stays as it is', () => {
    const status = { reason: 'Invalid', message: 'm', details: { name: 'n', causes: [{ field: 'metadata.uid' }] } };
    expect(new ApiError('POST /x', 422, status).status).toEqual(status);
  });
});
