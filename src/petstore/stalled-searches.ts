import { constants } from 'node:http2';
import type { connectNodeAdapter } from '@connectrpc/connect-node';
import { PetStore } from '../petstore-wire/index.ts';

type Handler = ReturnType<typeof connectNodeAdapter>;

const searchPath = `/${PetStore.typeName}/${PetStore.method.searchPets.name}`;

/**
 * Cancels searches that are still open `afterMs` milliseconds after they began, and those whose client has left. A search checks
 * its deadline and its signal only when the client reads on. A stalled one would hold its place, and old pages of the
 * write-ahead log, for ever.
 */
export function cancelStalledSearches(handler: Handler, afterMs: number): Handler {
  return (request, response) => {
    const [path] = request.url?.split('?') ?? [];
    if (path === searchPath && 'stream' in response) {
      const { stream } = response;
      const timer = setTimeout(() => stream.close(constants.NGHTTP2_CANCEL), afterMs);
      stream.once('close', () => {
        clearTimeout(timer);
        // The adapter waits for `drain` also after the stream has closed, when no `drain` comes (`write` in connect-node's
        // node-universal-handler).
        setImmediate(() => response.emit('drain'));
      });
    }
    handler(request, response);
  };
}
