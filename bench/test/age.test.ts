import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { ageOf, UnknownAgeError } from '../age.ts';
import { run } from './results.ts';

let folder: string;
const commits: string[] = [];

const git = async (...args: readonly string[]): Promise<string> =>
  (await execa('git', ['-c', 'user.name=test', '-c', 'user.email=test@example.com', ...args], { cwd: folder })).stdout;

/** Commits a new file. */
async function commit(file: string): Promise<void> {
  await writeFile(join(folder, file), '');
  await git('add', '--all');
  await git('commit', '--quiet', '--message', file);
  commits.push(await git('rev-parse', '--short=10', 'HEAD'));
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bench-age-'));
  await git('init', '--quiet');
  await mkdir(join(folder, 'src'));
  await mkdir(join(folder, 'docs'));
  for (const file of ['src/a', 'docs/b', 'src/c', 'src/d', 'docs/e']) await commit(file);
});

afterAll(() => rm(folder, { recursive: true }));

test('the age is the number of later commits that change src/', async () => {
  const ages = await Promise.all(
    commits.map((echoperator) => ageOf({ parts: { burst: run({ echoperator }) } }, folder)),
  );
  expect(ages).toEqual([2, 2, 1, 0, 0]);
});

test('the oldest part decides', async () => {
  const [oldest = '', , , , newest = ''] = commits;
  const parts = { burst: run({ echoperator: newest }), external: run({ echoperator: oldest }) };
  expect(await ageOf({ parts }, folder)).toBe(2);
});

test.each(['unknown', 'changed'])('the age of code that is in no commit is not known: %s', async (what) => {
  const echoperator = what === 'changed' ? `${commits.at(-1)}+` : 'unknown';
  await expect(ageOf({ parts: { burst: run({ echoperator }) } }, folder)).rejects.toThrow(UnknownAgeError);
});
