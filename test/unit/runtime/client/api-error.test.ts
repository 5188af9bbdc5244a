import { describe, expect, test } from '@jest/globals';
import {
  ApiError,
  isAlreadyExists,
  isConflict,
  isExpired,
  isNamespaceTerminating,
  isNotFound,
} from '../../../../src/runtime/client/index.ts';

const error = (code: number, reason?: string, details?: object): ApiError =>
  new ApiError('GET /x', code, { ...(reason !== undefined && { reason }), ...(details && { details }) });

test('tells the request, the code, the reason and the message', () => {
  const refused = new ApiError('POST /api/v1/pods', 403, { reason: 'Forbidden', message: 'exceeded quota' });
  expect(refused.message).toBe('POST /api/v1/pods: 403 Forbidden: exceeded quota');
  expect(refused).toMatchObject({ name: 'ApiError', code: 403, reason: 'Forbidden', request: 'POST /api/v1/pods' });
  expect(new ApiError('GET /x', 502, {}).message).toBe('GET /x: 502 Unknown: no message');
});

describe('what it means', () => {
  const terminating = error(403, 'Forbidden', { causes: [{ reason: 'NamespaceTerminating' }] });
  const samples: Readonly<Record<string, unknown>> = {
    notFound: error(404, 'NotFound'),
    alreadyExists: error(409, 'AlreadyExists'),
    conflict: error(409, 'Conflict'),
    expired: error(410, 'Expired'),
    gone: error(410, 'Gone'),
    expiredByCode: error(410),
    forbidden: error(403, 'Forbidden'),
    terminating,
    // A route that a proxy does not know is not an object that is gone.
    bareNotFound: error(404),
    another: new Error('NotFound'),
    none: undefined,
  };

  test.each<[string, (candidate: unknown) => boolean, readonly string[]]>([
    ['isNotFound', isNotFound, ['notFound']],
    ['isAlreadyExists', isAlreadyExists, ['alreadyExists']],
    ['isConflict', isConflict, ['conflict']],
    ['isExpired', isExpired, ['expired', 'gone', 'expiredByCode']],
    ['isNamespaceTerminating', isNamespaceTerminating, ['terminating']],
  ])('%s', (_, predicate, expected) => {
    expect(Object.keys(samples).filter((name) => predicate(samples[name]))).toEqual(expected);
  });

  test('hasCause looks through all causes', () => {
    const causes = [{ reason: 'FieldValueInvalid', field: 'spec.a' }, { reason: 'NamespaceTerminating' }, {}];
    expect(error(422, 'Invalid', { causes }).hasCause('NamespaceTerminating')).toBe(true);
    expect(error(422, 'Invalid', { causes }).hasCause('FieldValueRequired')).toBe(false);
    expect(error(422, 'Invalid', {}).hasCause('FieldValueRequired')).toBe(false);
    expect(error(422, 'Invalid').hasCause('FieldValueRequired')).toBe(false);
  });
});
