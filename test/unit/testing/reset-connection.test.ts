import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { resetConnection } from '../../../packages/testing/src/reset-connection.ts';

let server: Server;
let accepted: Socket;
let peer: Socket;

beforeEach(async () => {
  server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const connection = once(server, 'connection');
  peer = connect((server.address() as AddressInfo).port, '127.0.0.1');
  [accepted] = await connection;
});
afterEach(async () => {
  peer.destroy();
  accepted.destroy();
  await once(server.close(), 'close');
});

test('resets a connection', async () => {
  const error = once(peer, 'error');
  resetConnection(accepted);
  expect(await error).toMatchObject([{ code: 'ECONNRESET' }]);
});

test('closes a connection that is shutting down', async () => {
  accepted.resume();
  const ended = once(accepted, 'end');
  peer.end();
  await ended;
  const closed = once(accepted, 'close');
  resetConnection(accepted);
  await closed;
});
