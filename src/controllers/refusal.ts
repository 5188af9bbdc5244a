import { ApiError, isInvalid, isNamespaceTerminating } from '../runtime/index.ts';

/** Forbidden and Invalid; and what admission webhooks and policies say, a webhook that gives no code 400. */
const refusalCodes: readonly number[] = [400, 403, 413, 422];

/** The server will not have this child: a quota, a policy, a bad field. In a namespace on its way out nobody cares. */
export function isRefusal(error: unknown): error is ApiError {
  return error instanceof ApiError && refusalCodes.includes(error.code) && !isNamespaceTerminating(error);
}

/** Somebody's webhook cannot be tried (k8s.io/apiserver/pkg/admission/plugin/webhook/errors): it says nothing of the object. */
export const isDryRunUnsupported = (error: unknown): boolean =>
  error instanceof ApiError && error.code === 400 && (error.status.message ?? '').includes('does not support dry run');

/** What the API server has said, in its own words. */
export const wordsOf = ({ status, message }: ApiError): string => status.message ?? message;

/** The server names a field that is wrong, and will say the same again. A policy, which names none, may be changed. */
export const isInvalidField = (error: unknown): error is ApiError =>
  isInvalid(error) && error.causes.some(({ field }) => field);
