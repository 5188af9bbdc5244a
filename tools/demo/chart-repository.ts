import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, join } from 'node:path';

/** An HTTP server for a folder with an index.yaml, which is all that a Helm chart repository is. */
export interface ChartRepository extends AsyncDisposable {
  readonly url: string;
}

/** Serves the files of a folder, without its subfolders, on a free port of the loopback interface. */
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
