import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, test } from '@jest/globals';
import { Database } from '../../../../src/kinds/postgres-writer/database.ts';
import { ping } from '../../../../src/kinds/postgres-writer/statements.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';

/** A message of PostgreSQL's protocol: its type, its length and its content. */
function message(type: string, ...content: readonly (string | number)[]): Buffer {
  const bytes = Buffer.concat(
    content.map((part) => {
      if (typeof part === 'string') return Buffer.from(part);
      const number = Buffer.alloc(4);
      number.writeInt32BE(part);
      return number;
    }),
  );
  const length = Buffer.alloc(4);
  length.writeInt32BE(bytes.length + 4);
  return Buffer.concat([Buffer.from(type), length, bytes]);
}

const authenticated = message('R', 0);
const readyForQuery = message('Z', 'I');
const serverExits = message(
  'E',
  'SFATAL\0',
  'C57P01\0',
  'Mterminating connection due to unexpected postmaster exit\0',
  '\0',
);

// PostgreSQL cannot be made to die in exactly this moment.
test('a connection that the server ends as soon as it is open fails the statement, not the process', async () => {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => socket.end(Buffer.concat([authenticated, readyForQuery, serverExits])));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const database = new Database({
    settings: {
      host: '127.0.0.1',
      port: (server.address() as AddressInfo).port,
      dbname: 'school',
      user: 'writer',
      sslmode: 'disable',
      poolSize: 1,
      connectTimeoutSeconds: 5,
      statementTimeoutSeconds: 5,
    },
    log: new RecordingLog(),
  });
  try {
    await expect(database.query(ping)).rejects.toMatchObject({ name: 'ExternalSystemDownError' });
  } finally {
    await database.close();
    server.close();
    await once(server, 'close');
  }
});
