import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { serveChartRepository } from '../../tools/demo/chart-repository.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'chart-repository-'));
  await mkdir(join(folder, 'served'));
  await writeFile(join(folder, 'served', 'index.yaml'), 'entries: {}\n');
  await writeFile(join(folder, 'secret'), 'not ours to give');
});
afterEach(() => rm(folder, { recursive: true }));

test('serves the files of its folder on loopback until it is disposed', async () => {
  const repository = await serveChartRepository(join(folder, 'served'));
  const index = await fetch(`${repository.url}/index.yaml?some=query`);
  expect([index.status, await index.text()]).toEqual([200, 'entries: {}\n']);
  expect(new URL(repository.url).hostname).toBe('127.0.0.1');
  await repository[Symbol.asyncDispose]();
  await expect(fetch(`${repository.url}/index.yaml`)).rejects.toThrow();
});

test.each(['/missing.tgz', '/', '/../secret', '/%2e%2e/secret', '/..%2fsecret', '//secret'])(
  'answers 404 to %s',
  async (path) => {
    await using repository = await serveChartRepository(join(folder, 'served'));
    const answer = await fetch(repository.url + path);
    await answer.text();
    expect(answer.status).toBe(404);
  },
);
