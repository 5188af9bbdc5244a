import { isNativeError } from 'node:util/types';

/** A request had no answer, or half of one: the network, a proxy or the server's silence ended it. */
export class NoAnswerError extends Error {
  override readonly name = 'NoAnswerError';
  /** Node's or undici's code: `ECONNREFUSED`, `UND_ERR_SOCKET`, `UND_ERR_HEADERS_TIMEOUT` … */
  readonly code: string | undefined;
  /**
   * Whether the request may have reached the server. If so, a write's outcome is unknown: it may have been done, may
   * still be under way, or may never be. If not, it surely was not done.
   */
  readonly sent: boolean;

  /** @param request `POST /apis/batch/v1/namespaces/default/jobs` */
  constructor(request: string, cause: unknown, sent: boolean) {
    const code = codeOf(cause);
    super(`${request}: ${sent ? 'no answer' : 'not sent'}: ${explain(cause, code)}`, { cause });
    this.code = code;
    this.sent = sent;
  }
}

function codeOf(cause: unknown): string | undefined {
  return typeof cause === 'object' && cause !== null && 'code' in cause && typeof cause.code === 'string'
    ? cause.code
    : undefined;
}

function explain(cause: unknown, code: string | undefined): string {
  if (code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT')
    return 'the server was silent for too long';
  const message = isNativeError(cause) ? cause.message : String(cause);
  // A host with several addresses fails with an AggregateError, whose message is empty.
  return message === '' ? (code ?? 'unknown error') : message;
}
