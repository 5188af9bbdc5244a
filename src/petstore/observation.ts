import { Code, ConnectError, type Interceptor, type StreamResponse, type UnaryResponse } from '@connectrpc/connect';
import type { Logger } from '../runtime/index.ts';
import { asConnectError } from './connect-error.ts';
import type { PetStoreMetrics } from './pet-store-metrics.ts';
import type { Sampler } from './sampler.ts';

/** As gRPC writes them: `InvalidArgument`. */
const nameOf = (code: Code | undefined): string => (code === undefined ? 'OK' : Code[code]);

/**
 * Sees every request from its beginning to its end, a stream's too: makes of an error what the client is told, counts, and
 * has a line in the log for each request that is traced and for each that failed by the store's own fault.
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
    const isTraced = sampler.samples(traceparent);
    const startedAtMs = performance.now();
    const finished = (error?: ConnectError): void => {
      const durationMs = performance.now() - startedAtMs;
      const code = nameOf(error?.code);
      metrics.finished(method, code, durationMs / 1000);
      if (error?.cause !== undefined && code !== 'Canceled')
        log.error({ err: error.cause, method }, 'a request failed');
      if (isTraced) log.info({ method, code, durationMs, traceparent, why: error?.rawMessage }, 'a request was traced');
    };
    const failed = (error: unknown): ConnectError => {
      const told = request.signal.aborted
        ? ConnectError.from(request.signal.reason, Code.Canceled)
        : asConnectError(error);
      finished(told);
      return told;
    };
    let response: UnaryResponse | StreamResponse;
    try {
      response = await next(request);
    } catch (error) {
      throw failed(error);
    }
    if (response.stream) return { ...response, message: watched(response.message, finished, failed) };
    finished();
    return response;
  };
}

/** The same messages. A reader that goes away before the last has also finished. */
async function* watched<T>(
  messages: AsyncIterable<T>,
  finished: (error?: ConnectError) => void,
  failed: (error: unknown) => ConnectError,
): AsyncGenerator<T> {
  let end: 'left' | 'failed' | 'whole' = 'left';
  try {
    for await (const message of messages) yield message;
    end = 'whole';
  } catch (error) {
    end = 'failed';
    throw failed(error);
  } finally {
    if (end === 'whole') finished();
    if (end === 'left') finished(new ConnectError('the client went away', Code.Canceled));
  }
}
