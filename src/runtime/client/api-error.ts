/** What the API server says of a request that it refused: a `Status` object of the API. */
export interface Status {
  readonly code?: number;
  /** One CamelCase word: NotFound, AlreadyExists, Conflict, Invalid, Forbidden, Expired … */
  readonly reason?: string;
  readonly message?: string;
  readonly details?: {
    readonly causes?: readonly { readonly reason?: string; readonly field?: string; readonly message?: string }[];
    readonly retryAfterSeconds?: number;
  };
}

/** The API server refused a request. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** The HTTP status code. */
  readonly code: number;
  readonly reason: string;
  readonly status: Status;
  /** `POST /apis/batch/v1/namespaces/default/jobs`. */
  readonly request: string;

  constructor(request: string, code: number, status: Status) {
    super(`${request}: ${code} ${status.reason ?? 'Unknown'}: ${status.message ?? 'no message'}`);
    this.code = code;
    this.reason = status.reason ?? 'Unknown';
    this.status = status;
    this.request = request;
  }

  /** Whether the server names `reason` among the causes (`NamespaceTerminating`, `FieldValueInvalid` …). */
  hasCause(reason: string): boolean {
    return this.status.details?.causes?.some((cause) => cause.reason === reason) ?? false;
  }
}

const hasReason = (error: unknown, reason: string): error is ApiError =>
  error instanceof ApiError && error.reason === reason;

/** The object, or the kind itself, does not exist. */
export const isNotFound = (error: unknown): error is ApiError => hasReason(error, 'NotFound');

/** A create found the name taken. */
export const isAlreadyExists = (error: unknown): error is ApiError => hasReason(error, 'AlreadyExists');

/** A precondition (resourceVersion, uid) did not hold, or another field manager owns a field. */
export const isConflict = (error: unknown): error is ApiError => hasReason(error, 'Conflict');

/** The resourceVersion or the continue token is too old: list anew. */
export const isExpired = (error: unknown): error is ApiError =>
  error instanceof ApiError && (error.code === 410 || error.reason === 'Expired' || error.reason === 'Gone');

/** The namespace is being deleted: nothing can be created in it, and nothing needs to be. */
export const isNamespaceTerminating = (error: unknown): error is ApiError =>
  error instanceof ApiError && error.hasCause('NamespaceTerminating');
