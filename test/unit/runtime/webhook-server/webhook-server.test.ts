import { once } from 'node:events';
import { Agent, request } from 'node:https';
import { connect as connectTcp } from 'node:net';
import { text } from 'node:stream/consumers';
import { connect as connectTls, type PeerCertificate, type TLSSocket } from 'node:tls';
import { afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { certificateReader } from '../../../../packages/runtime/src/webhook-server/certificate-reader.ts';
import {
  type CertificateIssuer,
  canonicalName,
  type KeyPair,
} from '../../../../packages/runtime/src/webhook-server/pki.ts';
import {
  type WebhookHandler,
  WebhookServer,
  type WebhookServerLimits,
} from '../../../../packages/runtime/src/webhook-server/webhook-server.ts';
import { loadX509Issuer } from '../../../../packages/runtime/src/webhook-server/x509-issuer.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';

const hourMs = 3_600_000;
const log = new RecordingLog();
let issuer: CertificateIssuer;
let authority: KeyPair;
let certificate: KeyPair & { readonly notAfterMs: number };

const validity = (lifetimeMs = hourMs) => ({ notBeforeMs: Date.now() - hourMs, notAfterMs: Date.now() + lifetimeMs });
const issue = async (lifetimeMs = hourMs) => {
  const request = { ...validity(lifetimeMs), names: ['hooks.default.svc', '127.0.0.1'] };
  return { ...(await issuer.issue(request, authority)), notAfterMs: request.notAfterMs };
};

beforeAll(async () => {
  issuer = await loadX509Issuer();
  authority = await issuer.createAuthority({ ...validity(), names: ['test'] });
  certificate = await issue();
});

let server: WebhookServer;
/** Sockets of clients that never end by themselves. */
let sockets: TLSSocket[] = [];
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets = [];
  await server?.stop();
});

async function start(handler: WebhookHandler, limits: WebhookServerLimits = {}): Promise<void> {
  const handlers = new Map([['/hook', handler]]);
  server = await WebhookServer.start({ port: 0, host: '127.0.0.1', handlers, log, stopDelayMs: 0, ...limits });
  server.setCertificate(certificate);
}

interface Sent {
  readonly path?: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly agent?: Agent;
}

async function send(body: string | Buffer, { path = '/hook', method = 'POST', headers = {}, agent }: Sent = {}) {
  const sent = request({
    host: '127.0.0.1',
    port: server.port,
    path,
    method,
    ca: authority.certificate,
    headers: { 'content-type': 'application/json', ...headers },
    agent: agent ?? false,
  });
  // A server may respond before it has read a body that is too large.
  sent.on('error', () => {});
  sent.end(body);
  const [response] = await once(sent, 'response');
  return { code: response.statusCode as number, headers: response.headers, body: JSON.parse(await text(response)) };
}

describe('certificates', () => {
  test('are verified by the name and the address, with the authority', async () => {
    await start(async () => ({}));
    const [parsed] = certificateReader.read(certificate.certificate);
    const [issuedBy] = certificateReader.read(authority.certificate);
    expect(parsed?.names).toEqual(['hooks.default.svc', '127.0.0.1']);
    expect(certificateReader.isIssuedBy(parsed!, issuedBy!)).toBe(true);
    expect(certificateReader.fits(parsed!, certificate.key)).toBe(true);
    expect(certificateReader.fits(parsed!, authority.key)).toBe(false);
    expect(certificateReader.fits(parsed!, 'no key')).toBe(false);
    const socket = connectTls({ port: server.port, ca: authority.certificate, servername: 'hooks.default.svc' });
    await once(socket, 'secureConnect');
    expect(socket.authorized).toBe(true);
    socket.destroy();
  });

  test('have IPv6 addresses in the form in which they are compared', async () => {
    const request = { ...validity(), names: ['::1', '2001:DB8:0::1'].map(canonicalName) };
    const [parsed] = certificateReader.read((await issuer.issue(request, authority)).certificate);
    expect(parsed?.names).toEqual(request.names);
    expect(request.names).toEqual(['::1', '2001:db8::1']);
  });

  test('skips what is no certificate', () => {
    const broken = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n';
    const all = `text\n${broken}${authority.certificate}`;
    expect(certificateReader.read(all).map(({ pem }) => pem)).toEqual([authority.certificate]);
    expect(certificateReader.read('')).toEqual([]);
  });

  test('replace each other without a restart; an expired one makes the server unready', async () => {
    await start(async () => ({}));
    const serialNumber = async (): Promise<string> => {
      const socket: TLSSocket = connectTls({
        port: server.port,
        ca: authority.certificate,
        servername: 'hooks.default.svc',
      });
      await once(socket, 'secureConnect');
      const peer: PeerCertificate = socket.getPeerCertificate();
      socket.destroy();
      return peer.serialNumber;
    };
    const first = await serialNumber();
    server.setCertificate(await issue());
    expect(await serialNumber()).not.toBe(first);
    expect(server.problem).toBeUndefined();
    expect(() => server.setCertificate({ certificate: 'none', key: 'none', notAfterMs: 0 })).toThrow();
    expect(server.problem).toBeUndefined();
    server.setCertificate({ ...certificate, notAfterMs: Date.now() - 1 });
    expect(server.problem).toBe('a certificate of its webhooks');
  });
});

describe('hostile clients', () => {
  test.each([
    ['another path', 404, '{}', { path: '/other' }],
    ['a path of the prototype', 404, '{}', { path: '/constructor' }],
    ['another method', 405, '{}', { method: 'PUT' }],
    ['another type', 415, '{}', { headers: { 'content-type': 'text/plain' } }],
    ['no JSON', 400, '{', {}],
    ['no body', 400, '', {}],
    ['no UTF-8', 400, Buffer.from([0x22, 0xff, 0x22]), {}],
    ['a large body', 413, `"${'x'.repeat(2000)}"`, {}],
  ] as const)('%s gets %i', async (_, code, body, options) => {
    await start(async () => ({}), { maxBodyBytes: 1000 });
    const response = await send(body, options);
    expect(response.code).toBe(code);
    expect(response.headers.connection).toBe('close');
    expect((await send('{}')).code).toBe(200);
  });

  test('bytes that are no TLS, and a client that disconnects, do no harm', async () => {
    await start(async () => ({}));
    const socket = connectTcp(server.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.end('GET / HTTP/1.1\r\n\r\n');
    await once(socket, 'close');
    const tls = connectTls({ port: server.port, ca: authority.certificate, servername: 'hooks.default.svc' });
    tls.on('error', () => {});
    await once(tls, 'secureConnect');
    tls.write('POST /hook HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{');
    tls.destroy();
    expect((await send('{}')).code).toBe(200);
  });

  test('an error of a handler is logged and gets 500 without its message', async () => {
    await start(async () => {
      throw new Error('secret');
    });
    const response = await send('{}');
    expect(response.code).toBe(500);
    expect(JSON.stringify(response.body)).not.toContain('secret');
    expect(log.lines.at(-1)).toMatchObject({ level: 'error', message: 'a webhook failed' });
  });
});

describe('a stop', () => {
  test('lets requests in flight end, with Connection: close', async () => {
    const [received, finish] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await start(async () => {
      received.resolve();
      await finish.promise;
      return { done: true };
    });
    const agent = new Agent({ keepAlive: true });
    const response = send('{}', { agent });
    await received.promise;
    const stopped = server.stop();
    expect(server.problem).toBe('stopping');
    finish.resolve();
    expect(await response).toMatchObject({ code: 200, headers: { connection: 'close' }, body: { done: true } });
    await stopped;
    agent.destroy();
  });

  test('serves new requests until its delay has passed', async () => {
    await start(async () => ({}), { stopDelayMs: 300 });
    const stopped = server.stop();
    expect((await send('{}')).headers.connection).toBe('close');
    await stopped;
    await expect(send('{}')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });

  test('does not wait for a handler longer than the drain timeout', async () => {
    const received = Promise.withResolvers<AbortSignal>();
    await start(
      (_, signal) => {
        received.resolve(signal);
        return new Promise(() => {});
      },
      { drainTimeoutMs: 1 },
    );
    const response = send('{}').catch(() => 'cut');
    const signal = await received.promise;
    await server.stop();
    expect(await response).toBe('cut');
    await eventually('the handler is told', async () => signal.aborted);
  });
});

describe('a place for a request', () => {
  test('becomes free when the API server stops waiting, whatever the handler does', async () => {
    let calls = 0;
    await start(
      () => {
        calls += 1;
        return calls === 1 ? new Promise(() => {}) : Promise.resolve({});
      },
      { maxConcurrent: 1 },
    );
    const never = await send('{}', { path: '/hook?timeout=1s' });
    expect(never.code).toBe(504);
    expect((await send('{}')).code).toBe(200);
    expect(log.lines.at(-1)).toMatchObject({ level: 'warn', message: 'a webhook did not respond in time' });
  });

  test('is not taken by a client that sends its body slowly', async () => {
    await start(async () => ({}), { maxConcurrent: 1 });
    const slow = await sendSlowly('{"a":');
    expect((await send('{}')).code).toBe(200);
    slow.destroy();
  });

  test('is refused while the bodies of all requests are too large together', async () => {
    await start(async () => ({}), { maxBodyBytes: 1000 });
    const slow = await Promise.all(Array.from({ length: 4 }, () => sendSlowly(`"${'x'.repeat(990)}`)));
    await eventually('the bodies are received', async () => (await send(`"${'x'.repeat(900)}"`)).code === 429);
    for (const each of slow) each.destroy();
    await eventually('they are forgotten', async () => (await send(`"${'x'.repeat(900)}"`)).code === 200);
  });
});

/** Sends a part of a body, and leaves the request open. */
async function sendSlowly(part: string): Promise<TLSSocket> {
  const socket = connectTls({ port: server.port, ca: authority.certificate, servername: 'hooks.default.svc' });
  socket.on('error', () => {});
  sockets.push(socket);
  await once(socket, 'secureConnect');
  const header = 'POST /hook HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n';
  await new Promise((resolve) => socket.write(header + part, resolve));
  return socket;
}

test('a body of an unknown length that is too large gets 413', async () => {
  await start(async () => ({}), { maxBodyBytes: 1000 });
  const response = await send('x'.repeat(200_000), { headers: { 'transfer-encoding': 'chunked' } });
  expect(response.code).toBe(413);
});

test('responds with 429 beyond the limit, so that API servers try again', async () => {
  const [received, finish] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  await start(
    async () => {
      received.resolve();
      await finish.promise;
      return {};
    },
    { maxConcurrent: 1 },
  );
  const first = send('{}');
  await received.promise;
  expect(await send('{}')).toMatchObject({ code: 429, headers: { 'retry-after': '1' } });
  finish.resolve();
  expect((await first).code).toBe(200);
});
