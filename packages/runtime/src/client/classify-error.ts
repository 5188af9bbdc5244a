import { ApiError } from './api-error.ts';
import { NoResponseError } from './no-response-error.ts';

/** The server does not serve the kind (404) or forbids the request (403). */
export const isNotServedOrForbidden = (error: unknown): error is ApiError =>
  error instanceof ApiError && (error.code === 404 || error.code === 403);

/**
 * The response to a streamed list from a server that does not support `sendInitialEvents`: an older server, or one with
 * WatchList disabled.
 */
export const isUnsupported = (error: unknown): boolean =>
  error instanceof ApiError && (error.code === 400 || error.code === 422);

/** The server has just started to serve the kind, or has lost its own watch on etcd, and will be ready soon. */
export const isInitializing = (error: unknown): boolean =>
  error instanceof ApiError && error.code === 429 && error.message.includes('storage is (re)initializing');

/** True without a response from the API server, which includes a proxy's 502–504. Also true for a defect. */
export const isFailedConnection = (error: unknown): boolean =>
  !(error instanceof ApiError) || (error.code >= 502 && error.code <= 504);

/**
 * True if the request may have succeeded: it was sent without a response, or the server failed while it processed it.
 */
export const isOutcomeUnknown = (error: unknown): boolean =>
  error instanceof NoResponseError ? error.wasSent : error instanceof ApiError && error.code >= 500;

/** Whether the API server certainly did not write. After any other error it may have written. */
export const wasNotWritten = (error: unknown): boolean => error instanceof ApiError && error.code < 500;
