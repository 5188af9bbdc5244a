import { ApiError, isInvalid } from '../runtime/client/index.ts';

/**
 * Whether a dry run failed because a webhook does not support dry runs (k8s.io/apiserver/pkg/admission/plugin/webhook/errors).
 * Such an answer says nothing about the object.
 */
export const isDryRunUnsupported = (error: unknown): boolean =>
  error instanceof ApiError && error.code === 400 && (error.status.message ?? '').includes('does not support dry run');

/** The message of the API server, without the request that the client's error adds. */
export const serverMessage = ({ status, message }: ApiError): string => status.message ?? message;

/** The reason and message for a refused request, whose path names the object. */
export const refusedOutcome = (error: ApiError) =>
  ({
    reason: 'Refused',
    message: `the API server refuses ${error.request}: ${serverMessage(error)}; the operator retries at least once a minute`,
  }) as const;

/** Whether the API server names an invalid field. A policy that refuses an object names none. */
export const isInvalidField = (error: unknown): error is ApiError =>
  isInvalid(error) && error.causes.some(({ field }) => field);
