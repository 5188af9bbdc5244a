import { createServer as createHttpServer, type IncomingMessage, type Server } from 'node:http';
import { createServer } from 'node:https';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { type Connection, ConnectionError } from '@echoperator/runtime/client';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { parseProxy, proxyFromEnvironment } from '../../../../packages/runtime/src/client/proxy.ts';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { certificate, certificateKey } from '../../../../testkit/certificate.ts';

describe('the proxy of the environment', () => {
  const proxyOf = (server: string, environment: NodeJS.ProcessEnv): string | undefined =>
    proxyFromEnvironment(new URL(server), environment)?.host;

  test('depends on the scheme of the server', () => {
    const environment = { HTTPS_PROXY: 'http://secure:1', HTTP_PROXY: 'http://plain:2' };
    expect(proxyOf('https://api.example', environment)).toBe('secure:1');
    expect(proxyOf('http://api.example', environment)).toBe('plain:2');
    expect(proxyOf('https://api.example', { https_proxy: 'small.example:3' })).toBe('small.example:3');
    expect(proxyOf('https://api.example', { HTTPS_PROXY: '' })).toBeUndefined();
  });

  test.each([
    'https://localhost:6443',
    'https://127.0.0.1',
    'https://127.3.2.1:6443',
    'https://[::1]:6443',
    'https://[::ffff:127.0.0.1]',
  ])('is not asked for the way to %s', (server) => {
    expect(proxyOf(server, { HTTPS_PROXY: 'http://proxy:1' })).toBeUndefined();
  });

  test.each([
    ['*', 'https://api.example', true],
    ['api.example', 'https://api.example', true],
    ['example', 'https://api.example', true],
    ['.example', 'https://api.example', true],
    ['*.example', 'https://api.example', true],
    ['.api.example', 'https://api.example', false],
    ['pi.example', 'https://api.example', false],
    ['other, API.example', 'https://api.example', true],
    ['api.example:6443', 'https://api.example:6443', true],
    ['api.example:443', 'https://api.example', true],
    ['api.example:6443', 'https://api.example', false],
    ['10.96.0.1', 'https://10.96.0.1', true],
    ['10.96.0.1:6443', 'https://10.96.0.1:6443', true],
    ['10.0.0.0/8', 'https://10.96.0.1:6443', true],
    ['10.0.0.0/16', 'https://10.96.0.1', false],
    ['10.0.0.0/99', 'https://10.96.0.1', false],
    ['fd00::/8', 'https://[fd00::1]:6443', true],
    ['fd00::1', 'https://[fd00::1]:6443', true],
    ['fd00:0:0:0:0:0:0:1', 'https://[fd00::1]:6443', true],
    ['FD00::0001', 'https://[fd00::1]:6443', true],
    ['fd00::2', 'https://[fd00::1]:6443', false],
    ['[fd00::1]', 'https://[fd00::1]:6443', true],
    ['[fd00:0:0:0:0:0:0:1]:6443', 'https://[fd00::1]:6443', true],
    ['[fd00::1]:443', 'https://[fd00::1]:6443', false],
    ['::ffff:10.96.0.1', 'https://10.96.0.1', true],
    ['::FFFF:10.96.0.0/108', 'https://10.96.0.1', true],
    ['10.96.0.1', 'https://[::ffff:10.96.0.1]', true],
    ['10.0.0.0/8', 'https://[::ffff:10.96.0.1]', true],
    ['::/0', 'https://10.96.0.1', false],
    ['0.0.0.0/0', 'https://[fd00::1]', false],
    ['10.96.0.1', 'https://x.10.96.0.1.example', false],
    ['10.0.0.0/8', 'https://api.example', false],
    ['', 'https://api.example', false],
  ])('NO_PROXY=%s excludes %s: %s', (exceptions, server, excepted) => {
    const environment = { HTTPS_PROXY: 'http://proxy:1', NO_PROXY: exceptions };
    expect(proxyOf(server, environment)).toBe(excepted ? undefined : 'proxy:1');
  });

  test.each(['socks5://proxy:1080', 'ftp://proxy', 'http://'])('%s is refused', (value) => {
    expect(() => parseProxy(value, 'the test')).toThrow(ConnectionError);
  });
});

describe('a request through a proxy', () => {
  let proxy: Server;
  let server: ReturnType<typeof createServer>;
  let transport: Transport;
  let connected: { target: string | undefined; authorization: string | undefined }[];
  let refuse: boolean;
  const sockets = new Set<Socket>();

  const portOf = (listening: Pick<Server, 'address'>): number => (listening.address() as AddressInfo).port;

  beforeEach(async () => {
    connected = [];
    refuse = false;
    server = createServer({ cert: certificate, key: certificateKey }, (request, response) => {
      response.end(JSON.stringify({ path: request.url, authorization: request.headers.authorization ?? null }));
    });
    proxy = createHttpServer();
    proxy.on('connect', (request: IncomingMessage, socket: Socket) => {
      connected.push({ target: request.url, authorization: request.headers['proxy-authorization'] });
      if (refuse) {
        socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
        return;
      }
      const upstream = connect(portOf(server), '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
        socket.pipe(upstream).pipe(socket);
      });
      for (const end of [socket, upstream]) {
        sockets.add(end);
        end.on('error', () => {});
      }
    });
    for (const listening of [server, proxy]) {
      await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve));
    }
    const connection: Connection = {
      server: new URL(`https://127.0.0.1:${portOf(server)}/behind`),
      tls: { ca: certificate },
      proxy: new URL(`http://jane:secret@127.0.0.1:${portOf(proxy)}`),
      authentication: () => ({ authorization: 'Bearer mine' }),
    };
    transport = new Transport(connection, { userAgent: 'test/1' });
  });

  afterEach(async () => {
    await transport.close();
    for (const socket of sockets) socket.destroy();
    sockets.clear();
    for (const listening of [server, proxy]) {
      listening.closeAllConnections();
      await new Promise<void>((resolve) => listening.close(() => resolve()));
    }
  });

  test('uses a tunnel that is kept open; the proxy sees its own credentials but not those for the server', async () => {
    const answer = { path: '/behind/x', authorization: 'Bearer mine' };
    for (let count = 0; count < 6; count += 1) {
      expect(await transport.request({ method: 'POST', path: '/x', body: {} })).toEqual(answer);
    }
    const authorization = `Basic ${Buffer.from('jane:secret').toString('base64')}`;
    expect(connected[0]).toEqual({ target: `127.0.0.1:${portOf(server)}`, authorization });
    // The pool may open a second while the first is being put back.
    expect(connected.length).toBeLessThan(3);
  });

  test('uses a tunnel for a watch too', async () => {
    const body = await transport.stream({ method: 'GET', path: '/watch' });
    expect(JSON.parse(Buffer.concat(await body.toArray()).toString())).toMatchObject({ path: '/behind/watch' });
    expect(connected).toHaveLength(1);
  });

  test('that the proxy refuses counts as not sent', async () => {
    refuse = true;
    const error = await transport.request({ method: 'POST', path: '/x', body: {} }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ name: 'NoResponseError', wasSent: false });
    expect((error as Error).message).toContain('403');
  });
});
