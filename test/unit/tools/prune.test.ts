import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, jest } from '@jest/globals';
import { pruneUnused } from '../../../tools/programs/prune.ts';

const dayMs = 24 * 60 * 60 * 1000;
const now = Date.now();

// Other processes are started and waited for, on a machine that may be busy.
jest.setTimeout(60_000);

let cache: string;

beforeEach(async () => {
  cache = await mkdtemp(join(tmpdir(), 'prune-'));
});

afterEach(async () => {
  await rm(cache, { recursive: true });
});

async function addFolder(name: string, unusedForMs: number): Promise<string> {
  const folder = join(cache, name);
  await mkdir(folder);
  await writeFile(join(folder, 'program'), '');
  const used = new Date(now - unusedForMs);
  await utimes(folder, used, used);
  return folder;
}

it('removes what nobody has asked for in two weeks', async () => {
  await addFolder('letters-0123456789abcdef', 15 * dayMs);
  await addFolder('letters-fedcba9876543210', 13 * dayMs);
  await pruneUnused(cache, now);
  expect(await readdir(cache)).toEqual(['letters-fedcba9876543210']);
});

it('leaves alone what is not a folder of a key', async () => {
  await addFolder('somebody-elses', 100 * dayMs);
  await pruneUnused(cache, now);
  expect(await readdir(cache)).toEqual(['somebody-elses']);
});

(process.platform === 'linux' ? it : it.skip)('leaves alone what a running program is from', async () => {
  const folder = await addFolder('letters-0123456789abcdef', 0);
  const program = join(folder, 'node');
  await copyFile(process.execPath, program);
  const running = spawn(program, ['--eval', 'console.log("up"); setInterval(() => undefined, 1000)'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  await once(running.stdout, 'data');
  const used = new Date(now - 100 * dayMs);
  await utimes(folder, used, used);
  await pruneUnused(cache, now);
  expect(await readdir(cache)).toEqual(['letters-0123456789abcdef']);
  running.kill();
  await once(running, 'exit');
  await pruneUnused(cache, now);
  expect(await readdir(cache)).toEqual([]);
});
