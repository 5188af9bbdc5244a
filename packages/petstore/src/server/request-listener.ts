import { constants, type Http2ServerRequest, type Http2ServerResponse, type ServerHttp2Stream } from 'node:http2';
import type { ConnectRouter, ContextValues } from '@connectrpc/connect';
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from '@connectrpc/connect-node';
import type { Logger } from '@echoperator/runtime';
import { Health } from '../wire/generated/grpc/health/v1/health_pb.js';

type UniversalHandler = ConnectRouter['handlers'][number];

/** Options of {@link requestListener}. */
export interface RequestListenerOptions {
  readonly handlers: readonly UniversalHandler[];
  readonly contextValues: (stream: ServerHttp2Stream) => ContextValues;
  /**
   * Called with each part of a request's body. The request continues when the result is fulfilled, and fails when it is
   * rejected.
   */
  readonly nextPart: (stream: ServerHttp2Stream, part: Buffer, isFirst: boolean) => Promise<void>;
  /** How long a client may take to send the body of a request, in milliseconds. */
  readonly bodyTimeoutMs: number;
  /**
   * How long a request may take, even if the client does not read the response, in milliseconds. A watch of Health has
   * no limit.
   */
  readonly requestTimeoutMs: number;
  readonly log: Logger;
}

/** Node's own limit for HTTP/1. Node has no such limit for HTTP/2 that clients must respect. */
const maxHeaderLength = 16 * 1024;

/** How long a client may continue to send the body of a request after the response, in milliseconds. */
const unreadBodyMs = 1000;

/** Protobuf only. No client of a pet store sends JSON, and errors of the JSON parser would quote the request. */
const contentType = /^application\/grpc(\+proto)?(;|$)/;

/**
 * Serves gRPC. Never throws for any request, because an error in a listener would end the process.
 *
 * Cancels a request that takes longer than its timeouts. A search checks its deadline and its signal only when the
 * client continues to read. A stalled search would keep its place, and old pages of the write-ahead log, forever.
 */
export function requestListener(
  options: RequestListenerOptions,
): (request: Http2ServerRequest, response: Http2ServerResponse) => void {
  const { log } = options;
  const handlers = new Map(options.handlers.map((handler) => [handler.requestPath, handler]));
  return (request, response) => {
    const refuse = (error: unknown): void => {
      log.debug({ err: error }, 'a request could not be served');
      request.stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    };
    try {
      const handler = handlers.get(request.url.split('?', 1)[0] ?? '');
      const refusal = refusalOf(request, handler);
      limitTime(request, response, handler, options);
      if (handler === undefined || refusal !== undefined) response.writeHead(refusal ?? 404).end();
      else serve(handler, request, response, options).catch(refuse);
    } catch (error) {
      refuse(error);
    }
  };
}

/** The HTTP status for a request that is not gRPC or whose headers are too large. Undefined for any other request. */
function refusalOf(
  { rawHeaders, headers }: Http2ServerRequest,
  handler: UniversalHandler | undefined,
): number | undefined {
  if (handler === undefined) return constants.HTTP_STATUS_NOT_FOUND;
  if (rawHeaders.reduce((sum, { length }) => sum + length, 0) > maxHeaderLength) {
    return constants.HTTP_STATUS_REQUEST_HEADER_FIELDS_TOO_LARGE;
  }
  return contentType.test(headers['content-type'] ?? '') ? undefined : constants.HTTP_STATUS_UNSUPPORTED_MEDIA_TYPE;
}

async function serve(
  handler: UniversalHandler,
  request: Http2ServerRequest,
  response: Http2ServerResponse,
  { contextValues, nextPart }: RequestListenerOptions,
): Promise<void> {
  const { stream } = request;
  // Connect creates a URL from the authority, which throws for some authorities. The pet store has only one name, so it
  // does not need the authority.
  Object.defineProperty(request, 'authority', { value: 'petstore' });
  const universal = universalRequestFromNodeRequest(request, response, undefined, contextValues(stream));
  const body = limitedBody(universal.body as AsyncIterable<Buffer>, stream, nextPart);
  await universalResponseToNodeResponse(await handler({ ...universal, body }), response);
}

async function* limitedBody(
  body: AsyncIterable<Buffer>,
  stream: ServerHttp2Stream,
  nextPart: RequestListenerOptions['nextPart'],
): AsyncGenerator<Buffer> {
  let isFirst = true;
  for await (const part of body) {
    await nextPart(stream, part, isFirst);
    isFirst = false;
    yield part;
  }
}

function limitTime(
  request: Http2ServerRequest,
  response: Http2ServerResponse,
  handler: UniversalHandler | undefined,
  { bodyTimeoutMs, requestTimeoutMs }: RequestListenerOptions,
): void {
  const { stream } = request;
  const cancel = (): void => stream.close(constants.NGHTTP2_CANCEL);
  let bodyTimer = setTimeout(cancel, bodyTimeoutMs);
  const requestTimer = handler?.method === Health.method.watch ? undefined : setTimeout(cancel, requestTimeoutMs);
  request.once('end', () => clearTimeout(bodyTimer));
  stream.once('finish', () => {
    if (request.readableEnded) return;
    // Nothing reads the rest of the body. The trailers follow this event.
    clearTimeout(bodyTimer);
    bodyTimer = setTimeout(() => stream.close(constants.NGHTTP2_NO_ERROR), unreadBodyMs);
  });
  stream.once('close', () => {
    clearTimeout(bodyTimer);
    clearTimeout(requestTimer);
    // Connect waits for `drain` even after the stream has closed, when no `drain` occurs (`write` in connect-node's
    // node-universal-handler).
    setImmediate(() => response.emit('drain'));
  });
}
