import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { AuditLog } from '../../../tools/cluster/audit-log.ts';

let folder: string;
let file: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'audit-log-'));
  file = join(folder, 'audit.log');
});

afterEach(() => rm(folder, { recursive: true }));

const line = (namespace: string, name: string): string =>
  `${JSON.stringify({ verb: 'create', objectRef: { namespace, name } })}\n`;

async function names(log: AuditLog, namespace: string): Promise<readonly (string | undefined)[]> {
  return (await log.events(namespace)).map(({ objectRef }) => objectRef?.name);
}

test('reads each complete line once and returns the events of a namespace', async () => {
  const log = AuditLog.fromStart(file);
  await writeFile(file, line('a', 'one') + line('b', 'other'));
  expect(await Promise.all([names(log, 'a'), names(log, 'a')])).toEqual([['one'], ['one']]);
  const whole = line('a', 'é');
  await appendFile(file, whole.slice(0, 20));
  expect(await names(log, 'a')).toEqual(['one']);
  await appendFile(file, whole.slice(20) + line('b', 'last'));
  expect(await names(log, 'a')).toEqual(['one', 'é']);
  expect(await names(log, 'b')).toEqual(['other', 'last']);
});

test('fromEnd ignores earlier lines, and treats a missing file as empty', async () => {
  const early = await AuditLog.fromEnd(file);
  await writeFile(file, line('a', 'one'));
  const late = await AuditLog.fromEnd(file);
  await appendFile(file, line('a', 'two'));
  expect(await names(early, 'a')).toEqual(['one', 'two']);
  expect(await names(late, 'a')).toEqual(['two']);
});

test('fromEnd ignores the rest of a line that is being written', async () => {
  const whole = line('a', 'one');
  await writeFile(file, whole.slice(0, 20));
  const log = await AuditLog.fromEnd(file);
  expect(await names(log, 'a')).toEqual([]);
  await appendFile(file, whole.slice(20) + line('a', 'two'));
  expect(await names(log, 'a')).toEqual(['two']);
});
