import { cutText } from './cut-text.ts';

/** One of the problems that the API server found in a request. */
export interface StatusCause {
  /** One CamelCase word: FieldValueInvalid, NamespaceTerminating … */
  readonly reason?: string;
  /** The path of the field: `spec.containers[0].image`. */
  readonly field?: string;
  readonly message?: string;
}

/** The body of an error response: the API's `Status` object. */
export interface Status {
  readonly code?: number;
  /** One CamelCase word: NotFound, AlreadyExists, Conflict, Invalid, Forbidden, Expired … */
  readonly reason?: string;
  readonly message?: string;
  readonly metadata?: {
    /** Of an expired page of a list: continues the list at the server's present version. */
    readonly continue?: string;
  };
  readonly details?: {
    /** The name of the object, if the request is about one object. */
    readonly name?: string;
    readonly causes?: readonly StatusCause[];
    readonly retryAfterSeconds?: number;
  };
}

/**
 * The API server refused a request. The message is one line for a log: method, path, code, reason, the server's
 * message, and each cause that the server's message does not mention.
 *
 * The server's texts may quote a whole spec, so each text and the whole message are cut to about 4 kB. Only the first
 * 20 causes are kept.
 */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** The HTTP status code. */
  readonly code: number;
  readonly reason: string;
  /** The server asks the client to wait this many seconds before it retries; undefined if the server does not say. */
  readonly retryAfterSeconds: number | undefined;
  // Private, because loggers print an error's public fields and the message already contains this.
  readonly #status: Status;
  readonly #request: string;

  /** @param retryAfterSeconds the value of the Retry-After header. Default: the value in the Status. */
  constructor(
    request: string,
    code: number,
    status: Status,
    retryAfterSeconds: number | undefined = status.details?.retryAfterSeconds,
  ) {
    const bounded = boundedStatus(status);
    const { reason = 'Unknown' } = bounded;
    super(cutText(`${request}: ${code} ${reason}: ${oneLineMessage(bounded)}`));
    this.code = code;
    this.reason = reason;
    this.retryAfterSeconds = retryAfterSeconds;
    this.#status = bounded;
    this.#request = request;
  }

  get status(): Status {
    return this.#status;
  }

  /** The message of the API server, without the request that `message` begins with. */
  get serverMessage(): string {
    return this.#status.message ?? this.message;
  }

  /** `POST /apis/batch/v1/namespaces/default/jobs`. */
  get request(): string {
    return this.#request;
  }

  /** The problems that the server lists; empty if it lists none. */
  get causes(): readonly StatusCause[] {
    return this.#status.details?.causes ?? [];
  }

  /** True if one of the causes has this reason (`NamespaceTerminating`, `FieldValueInvalid` …). */
  hasCause(reason: string): boolean {
    return this.causes.some((cause) => cause.reason === reason);
  }
}

function oneLineMessage({ message: given = 'no message', details }: Status): string {
  const message = String(given);
  const parts = [message];
  for (const { field, message: cause } of details?.causes ?? []) {
    // The server usually builds its message from the causes.
    if (cause !== undefined && !message.includes(cause)) parts.push(field ? `${field}: ${cause}` : cause);
  }
  const lines = parts.join('; ').split('\n');
  const texts = lines.map((line) => line.trim()).filter((line) => line !== '');
  return texts.join(' ');
}

const maxCauses = 20;

/** Checks the types too: a proxy or an extension may send anything under these names. */
function boundedStatus(status: Status): Status {
  const { details, ...rest } = status;
  if (!isObject(details)) return cutTexts(rest);
  const { causes, ...others } = details;
  const kept = Array.isArray(causes)
    ? causes
        .slice(0, maxCauses)
        .filter(isObject)
        .map(cutTexts<StatusCause>)
    : undefined;
  return { ...cutTexts(rest), details: { ...cutTexts(others), ...(kept !== undefined && { causes: kept }) } };
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

/** Cuts the members that are texts. */
function cutTexts<T extends object>(object: T): T {
  const texts = Object.entries(object).filter((entry): entry is [string, string] => typeof entry[1] === 'string');
  return { ...object, ...Object.fromEntries(texts.map(([name, text]) => [name, cutText(text)])) };
}

const hasReason = (error: unknown, reason: string): error is ApiError =>
  error instanceof ApiError && error.reason === reason;

/** The object or the kind does not exist. */
export const isNotFound = (error: unknown): error is ApiError => hasReason(error, 'NotFound');

/** A create failed because an object with this name exists. */
export const isAlreadyExists = (error: unknown): error is ApiError => hasReason(error, 'AlreadyExists');

/**
 * A precondition (resourceVersion, uid) did not hold, or another field manager owns a field. False for a webhook's
 * denial.
 */
export const isConflict = (error: unknown): error is ApiError =>
  hasReason(error, 'Conflict') && !isDeniedByAdmission(error);

/** The object violates the schema or a validation rule of its kind. Retrying the same request does not help. */
export const isInvalid = (error: unknown): error is ApiError => hasReason(error, 'Invalid');

/** The API server names an invalid field. A policy that refuses an object names none. */
export const isInvalidField = (error: unknown): error is ApiError =>
  isInvalid(error) && error.causes.some(({ field }) => field);

/**
 * An apply with a uid found an object with the same name and another uid. (If no object has the name, the API server
 * responds with a Conflict.)
 */
export const isUidMismatch = (error: unknown): error is ApiError =>
  isInvalid(error) && error.causes.some(({ field }) => field === 'metadata.uid');

/**
 * Matches the API server's message when a webhook or a policy denies a request, or when the server cannot call a
 * webhook. Only the message identifies these errors: the webhook or the policy chooses the code and the reason
 * (k8s.io/apiserver/pkg/admission/plugin, in webhook and policy).
 */
const admissionDenialPattern =
  /^admission webhook "[^"]*" denied the request|^Internal error occurred: failed calling webhook "|policy ['"][^'"]*['"] (with binding '[^']*' )?denied request: /i;

const isDeniedByAdmission = ({ status }: ApiError): boolean => admissionDenialPattern.test(status.message ?? '');

/** The server cannot authenticate the client: the credentials are missing, wrong or expired. */
export const isUnauthorized = (error: unknown): error is ApiError =>
  error instanceof ApiError && (error.code === 401 || error.reason === 'Unauthorized') && !isDeniedByAdmission(error);

/** BadRequest (also the default code of a denying webhook), Forbidden, RequestEntityTooLarge, Invalid. */
const refusalCodes: readonly number[] = [400, 403, 413, 422];

/**
 * The server does not accept an object. Possible causes are an invalid field, a quota, a policy, a webhook that denies
 * the object or cannot be called, and a missing permission. The server may accept the object later, when the cause is
 * gone. An error because the namespace is being deleted is not a refusal.
 */
export const isRefusal = (error: unknown): error is ApiError =>
  error instanceof ApiError &&
  (refusalCodes.includes(error.code) || isDeniedByAdmission(error)) &&
  !isNamespaceTerminating(error);

/** The client lacks the permission, or admission or a quota denies the request. */
export const isForbidden = (error: unknown): error is ApiError => hasReason(error, 'Forbidden');

/** The resourceVersion or the continue token is too old: list again. */
export const isExpired = (error: unknown): error is ApiError =>
  error instanceof ApiError && (error.code === 410 || error.reason === 'Expired' || error.reason === 'Gone');

/**
 * The namespace is being deleted, so the server refuses to create objects in it.
 *
 * @param namespace match only errors about this namespace. Default: any namespace.
 */
export const isNamespaceTerminating = (error: unknown, namespace?: string): error is ApiError =>
  error instanceof ApiError &&
  error.hasCause('NamespaceTerminating') &&
  (namespace === undefined || namespaceOf(error.request) === namespace);

/** `POST /apis/batch/v1/namespaces/default/jobs` → `default`; undefined for a request about all namespaces. */
const namespaceOf = (request: string): string | undefined => /\/namespaces\/([^/]+)/.exec(request)?.[1];
