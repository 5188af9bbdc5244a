import { ApiError } from '../../runtime/index.ts';
import { isInvalidField, isRefusal } from '../refusal.ts';

/** What was done with a pod when it failed. */
export interface Failure {
  readonly doing: 'making' | 'removing' | 'claiming';
  readonly error: unknown;
}

/** Why a PodSet is not as it asks for, and what somebody can do about it. */
export interface Hindrance {
  readonly reason:
    | 'InvalidTemplate'
    | 'PodRefused'
    | 'PodsEndEarly'
    | 'RemovalRefused'
    | 'AdoptionRefused'
    | 'InvalidSpec';
  readonly message: string;
}

/**
 * No pod can be made of the template: a field in it has a bad value, a wrong type or no meaning. The latter two the API
 * server finds when it decodes the request (k8s.io/apiserver/pkg/endpoints/handlers, transformDecodeError).
 */
export const isInvalidTemplate = (error: unknown): error is ApiError =>
  isInvalidField(error) || says(error, 400, / cannot be handled as a Pod: /);

/** There is no room for a pod more. What lacks what a quota counts is told in other words (plugin/resourcequota). */
export const isQuotaExceeded = (error: unknown): boolean => says(error, 403, /exceeded quota: /);

/** It may have been done, or may be later: no answer came that says no. */
export const isUnanswered = (error: unknown): boolean => !(error instanceof ApiError && error.code < 500);

/**
 * What the status is to say: of a pod that could not be made before all, then why none was tried, then of other things
 * that the API server would not have.
 */
export function hindranceOf(failures: readonly Failure[], untried: Hindrance | undefined): Hindrance | undefined {
  const refused = failures.filter(({ error }) => isRefusal(error));
  return told(refused.find(({ doing }) => doing === 'making')) ?? untried ?? told(refused[0]);
}

function told(failure: Failure | undefined): Hindrance | undefined {
  if (failure === undefined || !isRefusal(failure.error)) return undefined;
  const { status, message } = failure.error;
  return { reason: reasonOf(failure), message: status.message ?? message };
}

function reasonOf({ doing, error }: Failure): Hindrance['reason'] {
  if (doing === 'removing') return 'RemovalRefused';
  if (doing === 'claiming') return 'AdoptionRefused';
  return isInvalidTemplate(error) ? 'InvalidTemplate' : 'PodRefused';
}

const says = (error: unknown, code: number, words: RegExp): error is ApiError =>
  error instanceof ApiError && error.code === code && words.test(error.status.message ?? '');
