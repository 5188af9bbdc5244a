import { ApiError, type Status } from './api-error.ts';

/**
 * The JSON of an answer.
 *
 * @param request `GET /api/v1/pods`, for the error.
 * @param retryAfter the Retry-After header.
 * @throws ApiError for a code of 400 and above, and for what is not JSON.
 */
export function parseAnswer(request: string, code: number, text: string, retryAfter: string | undefined): unknown {
  if (code >= 400) throw new ApiError(request, code, parseStatus(code, text), retryAfterSeconds(retryAfter));
  try {
    return JSON.parse(text);
  } catch {
    // The API server answers in JSON: what does not is a proxy's log-in page, or a redirection.
    const message = `the answer is not JSON: ${JSON.stringify(text.slice(0, 200))}`;
    throw new ApiError(request, code, { code, message });
  }
}

/** Proxies in between answer with HTML or nothing: then the text itself is the message. */
function parseStatus(code: number, text: string): Status {
  try {
    const status: unknown = JSON.parse(text);
    if (typeof status === 'object' && status !== null && 'kind' in status && status.kind === 'Status') {
      return status as Status;
    }
  } catch {
    // Not JSON: the text is the message.
  }
  return { code, message: text.slice(0, 1000).trim() };
}

/** The API server gives seconds; the header's other form, a date, would have to trust two clocks. */
function retryAfterSeconds(header: string | undefined): number | undefined {
  return header !== undefined && /^\d{1,9}$/.test(header) ? Number(header) : undefined;
}
