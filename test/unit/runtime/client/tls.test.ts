import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { TlsOptions } from '@echoperator/runtime/client';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { certificate, certificateKey } from '../../../../testkit/certificate.ts';

let server: ReturnType<typeof createServer>;
let transport: Transport;
let tls: TlsOptions;
let release: () => void;

beforeEach(async () => {
  tls = { ca: certificate };
  const held = Promise.withResolvers<void>();
  release = held.resolve;
  const options = { cert: certificate, key: certificateKey, requestCert: true, rejectUnauthorized: false };
  // Answers with the name in the client's certificate; what is asked of /held only when it is released.
  server = createServer(options, (request, response) => {
    const { subject } = (request.socket as TLSSocket).getPeerCertificate();
    const answer = () => response.end(JSON.stringify(subject?.CN ?? 'nobody'));
    if (request.url === '/held') void held.promise.then(answer);
    else answer();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const connection = {
    server: new URL(`https://127.0.0.1:${port}`),
    get tls() {
      return tls;
    },
    authentication: () => ({}),
  };
  transport = new Transport(connection, { userAgent: 'test/1' });
});

afterEach(async () => {
  await transport.close();
  server.closeAllConnections();
  await new Promise<void>((resolve) => server.close(() => resolve()));
});

test('uses a new certificate at once on new connections, while requests in flight finish on the old ones', async () => {
  const get = { method: 'GET', path: '/x' } as const;
  expect(await transport.request(get)).toBe('nobody');
  const arrived = new Promise((resolve) => server.once('request', resolve));
  const underWay = transport.request({ ...get, path: '/held' });
  await arrived;
  tls = { ca: certificate, cert: certificate, key: certificateKey };
  expect(await transport.request(get)).toBe('localhost');
  release();
  expect(await underWay).toBe('nobody');
});

test('sends nothing to a server with an untrusted certificate, and does not retry', async () => {
  tls = {};
  const error = await transport.request({ method: 'POST', path: '/x', body: {} }).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ name: 'NoResponseError', code: 'DEPTH_ZERO_SELF_SIGNED_CERT', wasSent: false });
});
