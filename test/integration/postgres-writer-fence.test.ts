import { GateClosedError } from '@echoperator/runtime/client';
import { expect, test } from '@jest/globals';
import { Database } from '../../src/kinds/postgres-writer/database.ts';
import { PostgresServer } from '../../testkit/postgres-server.ts';
import { RecordingLog } from '../../testkit/recording-log.ts';
import { TcpProxy } from '../../testkit/tcp-proxy.ts';

test('a statement whose fence closes before it gets a connection is not sent', async () => {
  await using server = await PostgresServer.start();
  await using proxy = await TcpProxy.start(server.port);
  await server.query(`CREATE ROLE writer LOGIN PASSWORD 'w'`);
  const connectionsAtCheck: number[] = [];
  const database = new Database({
    settings: {
      host: '127.0.0.1',
      port: proxy.port,
      dbname: 'postgres',
      user: 'writer',
      password: 'w',
      sslmode: 'disable',
      poolSize: 1,
      connectTimeoutSeconds: 5,
      statementTimeoutSeconds: 5,
    },
    log: new RecordingLog(),
    gate: {
      signal: new AbortController().signal,
      pass: () => {
        connectionsAtCheck.push(proxy.connections);
        if (proxy.connections > 0) throw new GateClosedError('another leads');
      },
    },
  });
  let sent = '';
  proxy.onSent((data) => {
    sent += data.toString('latin1');
  });
  try {
    await expect(database.query({ text: 'SELECT', values: [] })).rejects.toThrow('another leads');
    expect(connectionsAtCheck).toEqual([0, 1]);
    expect(sent).toContain('writer');
    expect(sent).not.toContain('SELECT');
  } finally {
    await database.close();
  }
});
