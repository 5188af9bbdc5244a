import { readFileSync } from 'node:fs';
import type { Logger } from '@echoperator/runtime';
import { type HttpServer, serve as serveHttp } from '@echoperator/runtime/process';
import { PetStoreServer } from './pet-store-server.ts';
import type { Settings } from './settings.ts';

/**
 * Runs the pet store until the signal is aborted, then shuts it down gracefully.
 *
 * @throws DatabaseError if the file cannot be used; the system's error if a port is taken or a certificate cannot be
 *   read.
 */
export async function serve(settings: Settings, log: Logger, signal: AbortSignal): Promise<void> {
  const { listen, databasePath, requestIdsKeptHours, shutdownTimeoutSeconds, httpPort } = settings;
  const { tls } = settings;
  const readTls =
    tls &&
    (() => ({
      cert: readFileSync(tls.certFile, 'utf8'),
      key: readFileSync(tls.keyFile, 'utf8'),
      ca: tls.clientCaFile === undefined ? undefined : readFileSync(tls.clientCaFile, 'utf8'),
    }));
  const server = await PetStoreServer.start({
    ...listen,
    databasePath,
    requestsKeptMs: requestIdsKeptHours * 3_600_000,
    tls: readTls,
    log,
  });
  const http = await listenHttp(httpPort, server).catch(async (error: unknown) => {
    await server.stop(0);
    throw error;
  });
  const about = { database: databasePath, http: http.port, tls: tls !== undefined };
  log.info({ ...listen, ...about, clientCertificates: tls?.clientCaFile !== undefined }, 'pet store ready');
  await aborted(signal);
  log.info({}, 'pet store shutting down: waiting for requests in flight');
  await server.stop(shutdownTimeoutSeconds * 1000);
  await http.close();
  log.info({}, 'pet store stopped');
}

function listenHttp(port: number, server: PetStoreServer): Promise<HttpServer> {
  const { registry } = server.metrics;
  return serveHttp(port, {
    '/healthz': () => ({ code: 200, text: 'ok\n' }),
    '/readyz': () => (server.isServing ? { code: 200, text: 'ok\n' } : { code: 503, text: 'stopping\n' }),
    '/metrics': async () => ({ code: 200, contentType: registry.contentType, text: await registry.metrics() }),
  });
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
