import { isNativeError } from 'node:util/types';

/** A request got no complete response: the network or a proxy failed, or the server did not respond in time. */
export class NoResponseError extends Error {
  override readonly name = 'NoResponseError';
  /** Node's or undici's code: `ECONNREFUSED`, `UND_ERR_SOCKET`, `UND_ERR_HEADERS_TIMEOUT` … */
  readonly code: string | undefined;
  /**
   * Whether the request may have reached the server. If true, the outcome of a write is unknown: the server may have
   * done it, may still do it, or may never do it. If false, the server did not do it.
   */
  readonly wasSent: boolean;

  /** @param request `POST /apis/batch/v1/namespaces/default/jobs` */
  constructor(request: string, cause: unknown, wasSent: boolean) {
    const code = codeOf(cause);
    super(`${request}: ${wasSent ? 'no response' : 'not sent'}: ${messageOf(cause, code)}`, { cause });
    this.code = code;
    this.wasSent = wasSent;
  }
}

function codeOf(cause: unknown): string | undefined {
  return typeof cause === 'object' && cause !== null && 'code' in cause && typeof cause.code === 'string'
    ? cause.code
    : undefined;
}

function messageOf(cause: unknown, code: string | undefined): string {
  if (code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT')
    return 'the server was silent for too long';
  const message = isNativeError(cause) ? cause.message : String(cause);
  // Connecting to a host with several addresses fails with an AggregateError, whose message is empty.
  return message === '' ? (code ?? 'unknown error') : message;
}
