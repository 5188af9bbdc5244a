/** One thing that is wrong with a request, of which there may be several. */
export interface StatusCause {
  /** One CamelCase word: FieldValueInvalid, NamespaceTerminating … */
  readonly reason?: string;
  /** Which field, as a path: `spec.containers[0].image`. */
  readonly field?: string;
  readonly message?: string;
}

/** What the API server says of a request that it refused: a `Status` object of the API. */
export interface Status {
  readonly code?: number;
  /** One CamelCase word: NotFound, AlreadyExists, Conflict, Invalid, Forbidden, Expired … */
  readonly reason?: string;
  readonly message?: string;
  readonly details?: {
    /** Of the object that it is about, if it is about one. */
    readonly name?: string;
    readonly causes?: readonly StatusCause[];
    readonly retryAfterSeconds?: number;
  };
}

/**
 * The API server refused a request. The message is one line for a log: method, path, code, reason, the server's own
 * sentence, and of the causes what that sentence does not say.
 */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** The HTTP status code. */
  readonly code: number;
  readonly reason: string;
  /** After how many seconds the server wants to be asked again, if it said so. */
  readonly retryAfterSeconds: number | undefined;
  // Behind accessors: loggers write out an error's fields, and the message says all of it already.
  readonly #status: Status;
  readonly #request: string;

  /** @param retryAfterSeconds what the Retry-After header says; default: what the Status does. */
  constructor(
    request: string,
    code: number,
    status: Status,
    retryAfterSeconds: number | undefined = status.details?.retryAfterSeconds,
  ) {
    super(`${request}: ${code} ${status.reason ?? 'Unknown'}: ${sentence(status)}`);
    this.code = code;
    this.reason = status.reason ?? 'Unknown';
    this.retryAfterSeconds = retryAfterSeconds;
    this.#status = status;
    this.#request = request;
  }

  get status(): Status {
    return this.#status;
  }

  /** `POST /apis/batch/v1/namespaces/default/jobs`. */
  get request(): string {
    return this.#request;
  }

  /** All that is wrong, as far as the server says it in parts. */
  get causes(): readonly StatusCause[] {
    return this.#status.details?.causes ?? [];
  }

  /** Whether the server names `reason` among the causes (`NamespaceTerminating`, `FieldValueInvalid` …). */
  hasCause(reason: string): boolean {
    return this.causes.some((cause) => cause.reason === reason);
  }
}

function sentence({ message = 'no message', details }: Status): string {
  const parts = [message];
  for (const { field, message: cause } of details?.causes ?? []) {
    // As a rule the server's message is made of its causes'.
    if (cause !== undefined && !message.includes(cause)) parts.push(field ? `${field}: ${cause}` : cause);
  }
  return parts.join('; ').replaceAll(/\s*\n\s*/g, ' ');
}

const hasReason = (error: unknown, reason: string): error is ApiError =>
  error instanceof ApiError && error.reason === reason;

/** The object, or the kind itself, does not exist. */
export const isNotFound = (error: unknown): error is ApiError => hasReason(error, 'NotFound');

/** A create found the name taken. */
export const isAlreadyExists = (error: unknown): error is ApiError => hasReason(error, 'AlreadyExists');

/** A precondition (resourceVersion, uid) did not hold, or another field manager owns a field. */
export const isConflict = (error: unknown): error is ApiError => hasReason(error, 'Conflict');

/** The object breaks its schema or a rule of its kind: the same request will never do. */
export const isInvalid = (error: unknown): error is ApiError => hasReason(error, 'Invalid');

/** An apply was meant for an object of another uid: the one that has the name now is not it. (If none has: a Conflict.) */
export const isOtherUid = (error: unknown): error is ApiError =>
  isInvalid(error) && error.causes.some(({ field }) => field === 'metadata.uid');

/**
 * The words of the API server when a webhook or a policy denies a request, or a webhook cannot be called. The webhook or the
 * policy chooses code and reason (k8s.io/apiserver/pkg/admission/plugin, in webhook and policy).
 */
const admissionWords =
  /^admission webhook "[^"]*" denied the request|^Internal error occurred: failed calling webhook "|policy ['"][^'"]*['"] (with binding '[^']*' )?denied request: /i;

const isDeniedByAdmission = ({ status }: ApiError): boolean => admissionWords.test(status.message ?? '');

/** The server does not know who asks: the credentials are missing, wrong or have expired. */
export const isUnauthorized = (error: unknown): error is ApiError =>
  error instanceof ApiError && (error.code === 401 || error.reason === 'Unauthorized') && !isDeniedByAdmission(error);

/** Forbidden and Invalid, what is too large, and what a webhook that chooses no code denies: 400. */
const refusalCodes: readonly number[] = [400, 403, 413, 422];

/**
 * The server does not accept an object: a field of it is invalid, or a quota, a policy, a webhook or a missing permission
 * stands against it, or a webhook that must be asked cannot be called. It may accept it later, when that has changed. A
 * namespace that is being deleted is no refusal.
 */
export const isRefusal = (error: unknown): error is ApiError =>
  error instanceof ApiError &&
  (refusalCodes.includes(error.code) || isDeniedByAdmission(error)) &&
  !isNamespaceTerminating(error);

/** Who asks may not do this, or an admission rule or a quota says no. */
export const isForbidden = (error: unknown): error is ApiError => hasReason(error, 'Forbidden');

/** The server has too much to do, or a disruption budget says not now: nothing was done. */
export const isTooManyRequests = (error: unknown): error is ApiError =>
  error instanceof ApiError && (error.code === 429 || error.reason === 'TooManyRequests');

/** The server did not finish in time; of a write, the outcome is unknown. */
export const isServerTimeout = (error: unknown): error is ApiError =>
  hasReason(error, 'Timeout') || hasReason(error, 'ServerTimeout');

/** The resourceVersion or the continue token is too old: list anew. */
export const isExpired = (error: unknown): error is ApiError =>
  error instanceof ApiError && (error.code === 410 || error.reason === 'Expired' || error.reason === 'Gone');

/**
 * The namespace is being deleted: nothing can be created in it, and nothing needs to be.
 *
 * @param namespace asks for this one alone.
 */
export const isNamespaceTerminating = (error: unknown, namespace?: string): error is ApiError =>
  error instanceof ApiError &&
  error.hasCause('NamespaceTerminating') &&
  (namespace === undefined || namespaceOf(error.request) === namespace);

/** Of `POST /apis/batch/v1/namespaces/default/jobs` it is `default`; of a request for all namespaces there is none. */
const namespaceOf = (request: string): string | undefined => /\/namespaces\/([^/]+)/.exec(request)?.[1];
