import { Code, ConnectError, type Interceptor, type StreamResponse, type UnaryResponse } from '@connectrpc/connect';
import type { Logger } from '@echoperator/runtime';
import { asConnectError } from './connect-error.ts';
import type { PetStoreMetrics } from './pet-store-metrics.ts';
import type { Sampler } from './sampler.ts';

/** The code's name as in gRPC: `InvalidArgument`. */
const nameOf = (code: Code | undefined): string => (code === undefined ? 'OK' : Code[code]);

/**
 * Counts every request when it ends (a stream: after its last message), and converts errors with
 * {@link asConnectError}. Logs sampled requests, and requests that failed through the pet store's own fault.
 */
export function observation(options: {
  readonly metrics: PetStoreMetrics;
  readonly sampler: Sampler;
  readonly log: Logger;
}): Interceptor {
  const { metrics, sampler, log } = options;
  return (next) => async (request) => {
    const method = request.method.name;
    const traceparent = request.header.get('traceparent');
    const isTraced = sampler.isSampled(traceparent);
    const startedAtMs = performance.now();
    const recordEnd = (error?: ConnectError): void => {
      const durationMs = performance.now() - startedAtMs;
      const code = nameOf(error?.code);
      metrics.recordRequest(method, code, durationMs / 1000);
      if (error?.cause !== undefined && code !== 'Canceled') log.error({ err: error.cause, method }, 'request failed');
      if (isTraced) log.info({ method, code, durationMs, traceparent, why: error?.rawMessage }, 'request traced');
    };
    const recordFailure = (error: unknown): ConnectError => {
      const connectError = request.signal.aborted
        ? ConnectError.from(request.signal.reason, Code.Canceled)
        : asConnectError(error);
      recordEnd(connectError);
      return connectError;
    };
    let response: UnaryResponse | StreamResponse;
    try {
      response = await next(request);
    } catch (error) {
      throw recordFailure(error);
    }
    if (response.stream) return { ...response, message: observeMessages(response.message, recordEnd, recordFailure) };
    recordEnd();
    return response;
  };
}

/** Passes the messages on, and records the end of the stream, even if the client closes the stream early. */
async function* observeMessages<T>(
  messages: AsyncIterable<T>,
  recordEnd: (error?: ConnectError) => void,
  recordFailure: (error: unknown) => ConnectError,
): AsyncGenerator<T> {
  let end: 'abandoned' | 'failed' | 'complete' = 'abandoned';
  try {
    for await (const message of messages) yield message;
    end = 'complete';
  } catch (error) {
    end = 'failed';
    throw recordFailure(error);
  } finally {
    if (end === 'complete') recordEnd();
    if (end === 'abandoned') recordEnd(new ConnectError('the client closed the stream', Code.Canceled));
  }
}
