import { ApiError, type Status } from './api-error.ts';
import { parseBody } from './parse-body.ts';

/**
 * Parses the JSON body of a response.
 *
 * @param request `GET /api/v1/pods`, for the error message.
 * @param retryAfter the Retry-After header.
 * @throws ApiError for a code of 400 and above, and for a body that is not JSON.
 */
export function parseResponse(request: string, code: number, text: string, retryAfter: string | undefined): unknown {
  if (code >= 400) throw errorOf(request, code, text, retryAfter);
  try {
    return parseBody(text);
  } catch {
    // The API server always responds with JSON. Anything else is a proxy's login page or a redirect.
    const message = `the response is not JSON: ${JSON.stringify(text.slice(0, 200))}`;
    throw new ApiError(request, code, { code, message });
  }
}

/** The error that a response with a code of 400 or above stands for. Parameters as in {@link parseResponse}. */
export const errorOf = (request: string, code: number, text: string, retryAfter: string | undefined): ApiError =>
  new ApiError(request, code, parseStatus(code, text), parseRetryAfter(retryAfter));

/** A proxy responds with HTML or an empty body; its text becomes the message. */
function parseStatus(code: number, text: string): Status {
  try {
    const status: unknown = parseBody(text);
    if (typeof status === 'object' && status !== null && 'kind' in status && status.kind === 'Status') {
      return status as Status;
    }
  } catch {
    // Not JSON: use the text as the message.
  }
  return { code, message: text.slice(0, 1000).trim() };
}

/**
 * Returns seconds. The API server sends seconds; the header's date form is ignored because it depends on two clocks.
 */
function parseRetryAfter(header: string | undefined): number | undefined {
  return header !== undefined && /^\d{1,9}$/.test(header) ? Number(header) : undefined;
}
