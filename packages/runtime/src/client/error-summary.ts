import { UnreadableObjectError } from '../kind/unreadable-object.ts';
import { ApiError } from './api-error.ts';
import { NoResponseError } from './no-response-error.ts';

/** Words that name a kind of error, such as a code or a class: nothing with a space, a quote or a path in it. */
const codePattern = /^\w{1,40}$/;

/** A name of Kubernetes' API: of a quota, a webhook, a policy, a resource. */
const namePattern = '[\\w./-]{1,253}';
const quotaPattern = new RegExp(`exceeded quota: (${namePattern}), requested: (${namePattern})=`);
const webhookPattern = new RegExp(`admission webhook "(${namePattern})" denied`);
const failedWebhookPattern = new RegExp(`failed calling webhook "(${namePattern})"`);
const policyPattern = new RegExp(`policy ['"](${namePattern})['"] (?:with binding '[^']*' )?denied`, 'i');
const fieldPattern = /^[\w.[\]/-]{1,200}$/;

/** How many causes of an error, and fields of a refusal, a summary names. */
const maxParts = 3;

/**
 * Summarizes an error without its message, which may quote values of a spec, SQL literals or secrets. The summary has
 * the class and the code. For an error of the API server it also has the reason, the named fields, and the quota,
 * webhook or policy that denies the request. Every part has the form of a name or a code; anything else is skipped.
 */
export function summarizeError(error: unknown): string {
  const parts: string[] = [];
  for (let each = error; each !== undefined && parts.length < maxParts; each = causeOf(each)) parts.push(partOf(each));
  return parts.join(', caused by ');
}

const causeOf = (error: unknown): unknown => (error instanceof Error ? error.cause : undefined);

function partOf(error: unknown): string {
  if (error instanceof ApiError) return apiErrorPart(error);
  // The message contains only names.
  if (error instanceof UnreadableObjectError) return error.message;
  if (!(error instanceof Error)) return 'a value that is not an Error';
  const name = codePattern.test(error.name) ? error.name : 'Error';
  const code = codeOf(error);
  const sent = error instanceof NoResponseError ? (error.wasSent ? ' (sent, no response)' : ' (not sent)') : '';
  return `${name}${code === undefined ? '' : ` ${code}`}${sent}`;
}

function apiErrorPart(error: ApiError): string {
  const { message = '' } = error.status;
  const reason = codePattern.test(error.reason) ? error.reason : 'Unknown';
  const quota = quotaPattern.exec(message);
  const webhook = webhookPattern.exec(message)?.[1];
  const failedWebhook = failedWebhookPattern.exec(message)?.[1];
  const policy = policyPattern.exec(message)?.[1];
  const fields = error.causes
    .map(({ field }) => field)
    .filter((field) => field !== undefined && fieldPattern.test(field));
  const details = [
    quota && `quota ${quota[1]} is exceeded for ${quota[2]}`,
    webhook && `webhook ${webhook} denies it`,
    failedWebhook && `webhook ${failedWebhook} cannot be called`,
    policy && `policy ${policy} denies it`,
    fields.length > 0 && `fields ${[...new Set(fields)].slice(0, maxParts).join(', ')}`,
  ].filter((detail) => typeof detail === 'string');
  return [`${error.code} ${reason}`, ...details].join('; ');
}

/** The code of an error of Node, gRPC or PostgreSQL: `ECONNREFUSED`, 14, `42P01`. */
function codeOf(error: Error): string | undefined {
  const code: unknown = 'code' in error ? error.code : undefined;
  const text = typeof code === 'number' ? String(code) : code;
  return typeof text === 'string' && codePattern.test(text) ? text : undefined;
}
