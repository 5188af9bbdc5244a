import { chmod, mkdir, mkdtemp, rm, stat } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { askForExplanation, type ExplainServer, serveExplanations } from '@echoperator/runtime/process';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { RecordingLog } from '../../../../testkit/recording-log.ts';

const query = { kind: 'echo', namespace: 'default', name: 'hello' };

let folder: string;
let servers: ExplainServer[];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'explain-'));
  servers = [];
  log = new RecordingLog();
});
afterEach(async () => {
  await Promise.all(servers.map((server) => server.close()));
  await rm(folder, { recursive: true });
});

let log: RecordingLog;
const serve = async (answer = (asked: object): unknown => ({ asked })): Promise<void> => {
  servers.push(await serveExplanations(folder, answer, log));
};
const socket = () => join(folder, 'echoperator', 'explain.sock');

test('a query gets its answer', async () => {
  await serve();
  expect(await askForExplanation(folder, query)).toEqual({ asked: query });
});

test('only the own user may open the socket, and reach its folder', async () => {
  await serve();
  expect((await stat(socket())).mode & 0o777).toBe(0o600);
  expect((await stat(join(folder, 'echoperator'))).mode & 0o777).toBe(0o700);
});

test('a folder that others may enter is refused', async () => {
  await mkdir(join(folder, 'echoperator'));
  await chmod(join(folder, 'echoperator'), 0o755);
  await expect(serve()).rejects.toThrow('must belong to the user of this process, with the mode 700');
});

test('a socket that a killed process left behind is replaced', async () => {
  await mkdir(join(folder, 'echoperator'), { mode: 0o700 });
  const { execPath } = process;
  const { execa } = await import('execa');
  const script = `require('net').createServer().listen(${JSON.stringify(socket())}, () => process.kill(process.pid, 'SIGKILL'))`;
  await execa(execPath, ['--eval', script], { reject: false });
  expect((await stat(socket())).isSocket()).toBe(true);
  await serve();
  expect(await askForExplanation(folder, query)).toEqual({ asked: query });
});

test('a second process does not take the socket', async () => {
  await serve();
  await expect(serve()).rejects.toThrow('another process responds');
  expect(await askForExplanation(folder, query)).toEqual({ asked: query });
});

test.each([
  ['no JSON', 'hello'],
  ['null', 'null'],
  ['another type', '{"kind":1,"namespace":"a","name":"b"}'],
  ['too long', JSON.stringify({ ...query, name: 'x'.repeat(5000) })],
])('a request that is %s gets no answer, and the next one does', async (_, request) => {
  await serve();
  const client = connect(socket());
  client.end(request);
  await expect(text(client).catch(() => '')).resolves.toBe('');
  expect(await askForExplanation(folder, query)).toEqual({ asked: query });
});

test.each([
  [
    'throws',
    () => {
      throw new RangeError('no such time');
    },
  ],
  ['is no JSON', () => 1n],
])('an answer that %s is logged, and ends the connection but not the process', async (_, answer) => {
  let isFaulty = true;
  await serve((asked) => (isFaulty ? answer() : { asked }));
  await expect(askForExplanation(folder, query)).rejects.toThrow();
  expect(log.messages('error')).toEqual(['a query of explain could not be answered']);
  isFaulty = false;
  expect(await askForExplanation(folder, query)).toEqual({ asked: query });
});

test('without an operator there is an error', async () => {
  await expect(askForExplanation(folder, query)).rejects.toThrow('ENOENT');
});

test('an operator that closes the connection is an error, not an answer', async () => {
  await mkdir(join(folder, 'echoperator'), { mode: 0o700 });
  const server = createServer((client) => client.resume().end());
  await new Promise<void>((resolve) => server.listen(socket(), resolve));
  await expect(askForExplanation(folder, query)).rejects.toThrow(SyntaxError);
  await new Promise((resolve) => server.close(resolve));
});

test('close ends open connections, and the socket is gone', async () => {
  await serve();
  const client = connect(socket());
  const closed = new Promise((resolve) => client.on('close', resolve));
  client.on('error', () => {});
  await new Promise((resolve) => client.on('connect', resolve));
  await servers.pop()?.close();
  await closed;
  await expect(stat(socket())).rejects.toThrow('ENOENT');
});
