import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize } from 'node:path';
import { base, htmlFolder } from './folders.ts';

const contentTypes: Readonly<Record<string, string>> = {
  '.css': 'text/css',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.xml': 'application/xml',
};

export interface SiteServer extends AsyncDisposable {
  /** The address of the site's first page, with a slash at the end. */
  readonly address: string;
}

/**
 * Serves the built site on loopback, under the path that it has when it is published. Like GitHub Pages, it responds to
 * `/a` with `a.html`, and with the page `404.html` if there is no such file.
 *
 * @param port 0: any free port
 */
export async function serveSite(port = 0): Promise<SiteServer> {
  const server = createServer(async ({ url = '/' }, response) => {
    // Normalized while it is absolute, a path cannot leave the folder.
    const path = normalize(decodeURIComponent(new URL(url, 'http://site').pathname));
    const file = path.startsWith(base) ? await readSiteFile(path.slice(base.length)) : undefined;
    if (file === undefined) {
      response.writeHead(404, { 'content-type': 'text/html; charset=utf-8' });
      response.end(await readFile(join(htmlFolder, '404.html')));
      return;
    }
    response.writeHead(200, { 'content-type': contentTypes[file.extension] ?? 'application/octet-stream' });
    response.end(file.content);
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const { port: listening } = server.address() as AddressInfo;
  return {
    address: `http://127.0.0.1:${listening}${base}`,
    [Symbol.asyncDispose]: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

async function readSiteFile(
  path: string,
): Promise<{ readonly content: Buffer; readonly extension: string } | undefined> {
  const candidates = path === '' || path.endsWith('/') ? [`${path}index.html`] : [path, `${path}.html`];
  for (const candidate of candidates) {
    // A folder cannot be read as a file either.
    const content = await readFile(join(htmlFolder, candidate)).catch(() => undefined);
    if (content !== undefined) return { content, extension: extname(candidate) };
  }
  return undefined;
}
