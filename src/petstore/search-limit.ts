import { constants } from 'node:http2';
import type { connectNodeAdapter } from '@connectrpc/connect-node';
import { PetStore } from '../petstore-wire/index.ts';

type Handler = ReturnType<typeof connectNodeAdapter>;

const searchPath = `/${PetStore.typeName}/${PetStore.method.searchPets.name}`;

/**
 * Ends searches whose readers have stalled, so many milliseconds after they began, and whose readers went away while they were
 * stalled. A search looks at its clock and its signal only when it is read on: it would hold its place for ever, and the old
 * pages of the file, which the write-ahead log then has to keep.
 */
export function breakingOffSearches(handler: Handler, afterMs: number): Handler {
  return (request, response) => {
    const [path] = request.url?.split('?') ?? [];
    if (path === searchPath && 'stream' in response) {
      const { stream } = response;
      const timer = setTimeout(() => stream.close(constants.NGHTTP2_CANCEL), afterMs);
      stream.once('close', () => {
        clearTimeout(timer);
        // The adapter waits for a full stream to drain, and would wait on when it is closed: nobody tells it (`write` in
        // connect-node's node-universal-handler).
        setImmediate(() => response.emit('drain'));
      });
    }
    handler(request, response);
  };
}
