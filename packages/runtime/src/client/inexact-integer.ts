import { mayBeRounded } from '../kind/define-kind.ts';
import { ApiError } from './api-error.ts';

/** The reason of the cause that {@link requireExactIntegers} names. */
const inexactInteger = 'InexactInteger';

/**
 * Prevents a client from writing another integer than it has read.
 *
 * @param request for the error: `POST /apis/batch/v1/namespaces/default/jobs`.
 * @param body must not be nested deeper than a result of `parseBody`.
 * @throws ApiError that is a refusal and names the path of the first such integer, as if the server had refused the
 *   field.
 */
export function requireExactIntegers(request: string, body: unknown): void {
  const found = findRounded(body);
  if (found === undefined) return;
  const field = found.path.replace(/^\./, '');
  const problem =
    `the operator sends no integer beyond ±${Number.MAX_SAFE_INTEGER}, because it may have rounded it: ` +
    'use a smaller one, or for a quantity a string';
  const message = `${field}: Invalid value: ${found.value}: ${problem}`;
  const causes = [{ reason: inexactInteger, field, message: problem }];
  throw new ApiError(request, 422, { code: 422, reason: 'Invalid', message, details: { causes } });
}

/** Whether {@link requireExactIntegers} threw this error, so that nothing was sent. */
export const isInexactInteger = (error: ApiError): boolean => error.hasCause(inexactInteger);

function findRounded(value: unknown): { readonly path: string; readonly value: number } | undefined {
  if (typeof value === 'number') return mayBeRounded(value) ? { path: '', value } : undefined;
  if (typeof value !== 'object' || value === null) return undefined;
  const members = value as Readonly<Record<string, unknown>>;
  for (const name in members) {
    const found = findRounded(members[name]);
    if (found === undefined) continue;
    return { ...found, path: `${Array.isArray(value) ? `[${name}]` : `.${name}`}${found.path}` };
  }
  return undefined;
}
