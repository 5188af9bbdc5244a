import { once } from 'node:events';
import {
  type ClientHttp2Session,
  connect,
  createServer as createHttp2Server,
  type ServerHttp2Stream,
} from 'node:http2';
import { type AddressInfo, createServer, connect as dial } from 'node:net';
import { text } from 'node:stream/consumers';
import type { ExternalWrite } from '@echoperator/testing';
import { expect, test } from '@jest/globals';
import { GrpcProxy } from '../../testkit/grpc-proxy.ts';
import { TcpProxy } from '../../testkit/tcp-proxy.ts';

/** Answers each chunk with itself. */
async function echoServer() {
  const received: string[] = [];
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (data) => {
      received.push(data.toString());
      socket.write(data);
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    server.close();
    await once(server, 'close');
  };
  return { port, received, [Symbol.asyncDispose]: close };
}

const sent = (isDelivered: boolean): ExternalWrite => ({
  isForwarded: Promise.resolve(true),
  respond: () => isDelivered,
});

async function exchange(port: number, message: string): Promise<string> {
  const socket = dial(port, '127.0.0.1');
  const { promise, resolve } = Promise.withResolvers<string>();
  socket.on('error', () => {});
  socket.on('close', () => resolve('disconnected'));
  socket.on('data', (data) => resolve(data.toString()));
  socket.write(message);
  try {
    return await promise;
  } finally {
    socket.destroy();
  }
}

test('a TCP proxy forwards, discards, and loses the answer, as the interceptor says', async () => {
  await using server = await echoServer();
  await using proxy = await TcpProxy.start(server.port);
  const writes: Record<string, ExternalWrite> = {
    discarded: { isForwarded: Promise.resolve(false), respond: () => true },
    unanswered: sent(false),
    answered: sent(true),
  };
  proxy.intercept = (data) => writes[data.toString()];
  expect(await exchange(proxy.port, 'read')).toBe('read');
  expect(await exchange(proxy.port, 'answered')).toBe('answered');
  expect(await exchange(proxy.port, 'unanswered')).toBe('disconnected');
  expect(await exchange(proxy.port, 'discarded')).toBe('disconnected');
  expect(server.received).toEqual(['read', 'answered', 'unanswered']);
});

test('a TCP proxy forwards a late write after the client has gone', async () => {
  await using server = await echoServer();
  await using proxy = await TcpProxy.start(server.port);
  const [arrived, late, answered] = [
    Promise.withResolvers<void>(),
    Promise.withResolvers<boolean>(),
    Promise.withResolvers<void>(),
  ];
  proxy.intercept = () => {
    arrived.resolve();
    return {
      isForwarded: late.promise,
      respond: () => {
        answered.resolve();
        return false;
      },
    };
  };
  const socket = dial(proxy.port, '127.0.0.1');
  socket.write('late');
  await arrived.promise;
  socket.destroy();
  await once(socket, 'close');
  expect(server.received).toEqual([]);
  late.resolve(true);
  await answered.promise;
  expect(server.received).toEqual(['late']);
});

/** Answers each call with its method. */
async function grpcServer() {
  const received: string[] = [];
  const server = createHttp2Server();
  server.on('stream', (opened, headers) => {
    const stream = opened as ServerHttp2Stream;
    const method = String(headers[':path']).split('/').at(-1) ?? '';
    received.push(method);
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    stream.respond({ ':status': 200 }, { waitForTrailers: true });
    stream.end(method);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  return { port, received, [Symbol.asyncDispose]: async () => void server.close() };
}

async function call(session: ClientHttp2Session, method: string): Promise<string> {
  const stream = session.request({ ':path': `/petstore/${method}`, ':method': 'POST' });
  let status: unknown;
  stream.on('trailers', (trailers) => {
    status = trailers['grpc-status'];
  });
  stream.end('request');
  return `${await text(stream)} ${status}`;
}

test('a gRPC proxy forwards, discards, and loses the answer, as the interceptor says', async () => {
  await using server = await grpcServer();
  await using proxy = await GrpcProxy.start(server.port);
  const writes: Record<string, ExternalWrite> = {
    Discarded: { isForwarded: Promise.resolve(false), respond: () => true },
    Unanswered: sent(false),
    Answered: sent(true),
  };
  proxy.intercept = (method) => writes[method];
  const results: Record<string, string> = {};
  for (const method of ['Read', 'Answered', 'Unanswered', 'Discarded']) {
    const session = connect(`http://${proxy.address}`);
    session.on('error', () => {});
    results[method] = await call(session, method).catch(() => 'failed');
    session.destroy();
  }
  expect(results).toEqual({ Read: 'Read 0', Answered: 'Answered 0', Unanswered: 'failed', Discarded: 'failed' });
  expect(server.received).toEqual(['Read', 'Answered', 'Unanswered']);
});
