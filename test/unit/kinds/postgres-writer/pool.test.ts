import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { CredentialsError } from '../../../../src/kinds/postgres-writer/errors.ts';
import { type DatabaseSettings, readCredentials } from '../../../../src/kinds/postgres-writer/pool.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'credentials-'));
});
afterEach(() => rm(folder, { recursive: true }));

const read = (settings: Partial<DatabaseSettings>) =>
  readCredentials({
    host: 'db',
    port: 5432,
    dbname: 'school',
    sslmode: 'verify-full',
    poolSize: 4,
    connectTimeoutSeconds: 5,
    statementTimeoutSeconds: 5,
    ...settings,
  });
const write = (name: string, content: string) => writeFile(join(folder, name), content);

test('the role is that of the settings', async () => {
  const settings = { user: 'writer', password: 'secret' };
  expect(await read(settings)).toEqual({ ...settings, ca: undefined });
  expect(await read({ user: 'trusted' })).toEqual({ user: 'trusted', password: undefined, ca: undefined });
});

test('files go before the settings, each by itself, and are read anew', async () => {
  const settings = { user: 'writer', password: 'old', credentialsDir: folder };
  expect(await read(settings)).toMatchObject({ user: 'writer', password: 'old' });
  await write('PSQL_PASSWORD', 'new');
  expect(await read(settings)).toMatchObject({ user: 'writer', password: 'new' });
  await write('PSQL_USER', 'other');
  expect(await read(settings)).toMatchObject({ user: 'other', password: 'new' });
});

test('one line feed at the end of a file is none of the password, other spaces are', async () => {
  await write('PSQL_USER', 'writer\n');
  await write('PSQL_PASSWORD', ' se cret \n\n');
  expect(await read({ credentialsDir: folder })).toMatchObject({ user: 'writer', password: ' se cret \n' });
});

test('a certificate is read for verify-full alone', async () => {
  const settings = { user: 'writer', sslrootcert: join(folder, 'ca.crt') };
  await expect(read(settings)).rejects.toThrow(`the file ${settings.sslrootcert} does not exist`);
  expect((await read({ ...settings, sslmode: 'require' })).ca).toBeUndefined();
  await write('ca.crt', '\n');
  await expect(read(settings)).rejects.toThrow(`the file ${settings.sslrootcert} is empty`);
  await write('ca.crt', 'certificate');
  expect((await read(settings)).ca).toBe('certificate');
});

test('a file that cannot be read is named', async () => {
  await expect(read({ credentialsDir: folder })).rejects.toThrow(`the file PSQL_USER in ${folder} does not exist`);
  await expect(read({ user: 'writer', credentialsDir: join(folder, 'x'), sslrootcert: folder })).rejects.toThrow(
    CredentialsError,
  );
});
