import { ApiError, isInvalid, isRefusal } from '../runtime/client/index.ts';

// For the kinds that do not use OutcomeReporter yet.
export { isRefusal };

/** Somebody's webhook cannot be tried (k8s.io/apiserver/pkg/admission/plugin/webhook/errors): it says nothing of the object. */
export const isDryRunUnsupported = (error: unknown): boolean =>
  error instanceof ApiError && error.code === 400 && (error.status.message ?? '').includes('does not support dry run');

/** What the API server has said, in its own words. */
export const wordsOf = ({ status, message }: ApiError): string => status.message ?? message;

/** The server names a field that is wrong, and will say the same again. A policy, which names none, may be changed. */
export const isInvalidField = (error: unknown): error is ApiError =>
  isInvalid(error) && error.causes.some(({ field }) => field);
