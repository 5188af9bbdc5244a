import { Code, ConnectError, type Interceptor } from '@connectrpc/connect';
import { PetStore } from '@echoperator/petstore/wire';
import { Counter, Histogram, type Registry } from 'prom-client';

/** In seconds: a call takes a millisecond, a search for all pets minutes. */
const buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600];

/**
 * Counts and measures the calls, with the names and labels that go-grpc-middleware's client metrics have. A call that
 * the circuit or the gate refuses is not sent and not counted. The methods and codes of gRPC bound the number of
 * series.
 */
export function callMetrics(registry: Registry): Interceptor {
  const labelNames = ['grpc_type', 'grpc_service', 'grpc_method'] as const;
  const handled = new Counter({
    name: 'grpc_client_handled_total',
    help: 'Calls of the pet store that have ended, by method and gRPC code.',
    labelNames: [...labelNames, 'grpc_code'],
    registers: [registry],
  });
  const seconds = new Histogram({
    name: 'grpc_client_handling_seconds',
    help: 'Duration of calls of the pet store; of a search, until its end.',
    labelNames,
    buckets,
    registers: [registry],
  });
  for (const method of PetStore.methods) {
    const labels = labelsOf(method.methodKind === 'unary', PetStore.typeName, method.name);
    handled.inc({ ...labels, grpc_code: 'OK' }, 0);
    seconds.zero(labels);
  }
  return (next) => async (request) => {
    const startedAtMs = performance.now();
    const labels = labelsOf(!request.stream, request.service.typeName, request.method.name);
    const ended = (error?: unknown): void => {
      const grpc_code = error === undefined ? 'OK' : (Code[ConnectError.from(error).code] ?? 'Unknown');
      handled.inc({ ...labels, grpc_code });
      seconds.observe(labels, (performance.now() - startedAtMs) / 1000);
    };
    try {
      const response = await next(request);
      if (response.stream) return { ...response, message: observed(response.message, ended) };
      ended();
      return response;
    } catch (error) {
      ended(error);
      throw error;
    }
  };
}

async function* observed<T>(messages: AsyncIterable<T>, ended: (error?: unknown) => void): AsyncGenerator<T> {
  try {
    yield* messages;
  } catch (error) {
    ended(error);
    throw error;
  }
  ended();
}

const labelsOf = (isUnary: boolean, service: string, method: string) => ({
  grpc_type: isUnary ? 'unary' : 'server_stream',
  grpc_service: service,
  grpc_method: method,
});
