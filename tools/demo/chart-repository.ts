import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, join } from 'node:path';

/** A chart repository is a folder with an index.yaml, served over HTTP. */
export interface ChartRepository extends AsyncDisposable {
  readonly url: string;
}

/** Serves a folder's files, and no folder below it, on loopback alone and on a port that is free. */
export async function serveChartRepository(folder: string): Promise<ChartRepository> {
  const server = createServer((request, response) => {
    const pathname = URL.parse(request.url ?? '/', 'http://localhost')?.pathname ?? '/';
    readFile(join(folder, basename(pathname))).then(
      (content) => response.end(content),
      () => response.writeHead(404).end(),
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
