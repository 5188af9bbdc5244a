import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { execa } from 'execa';

const repository = join(import.meta.dirname, '../..');

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'open-handles-'));
  await writeFile(
    join(folder, 'jest.config.json'),
    JSON.stringify({
      testEnvironment: join(repository, 'test/open-handles-environment.ts'),
      extensionsToTreatAsEsm: ['.ts'],
      transform: { '\\.ts$': join(repository, 'node_modules/@swc/jest') },
    }),
  );
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Runs each file's text in a worker, as continuous integration runs a suite, and returns the message of each, if it failed. */
async function messagesOf(files: Readonly<Record<string, string>>): Promise<Readonly<Record<string, string>>> {
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  const results = join(folder, 'results.json');
  const jest = ['node_modules/jest/bin/jest.js', '--rootDir', folder, '--config', join(folder, 'jest.config.json')];
  await execa(process.execPath, [...jest, '--maxWorkers=2', '--json', `--outputFile=${results}`], {
    cwd: repository,
    env: { CI: 'true' },
    reject: false,
  });
  const { testResults } = JSON.parse(await readFile(results, 'utf8')) as {
    readonly testResults: readonly { readonly name: string; readonly message: string }[];
  };
  return Object.fromEntries(testResults.map(({ name, message }) => [name.slice(folder.length + 1), message]));
}

test('a file fails for what it leaves open, by the place where that was made, and for nothing else', async () => {
  const messages = await messagesOf({
    'timer.test.js': `test('is left', () => { setTimeout(() => {}, 60_000); });`,
    'nothing.test.js': `test('is left', () => { setTimeout(() => {}, 60_000).unref(); process.stdout.isTTY; });`,
  });
  expect(messages['timer.test.js']).toMatch(/1 left open at the end of the file: Timeout.*timer\.test\.js:1/s);
  expect(messages['nothing.test.js']).toBe('');
}, 60_000);
