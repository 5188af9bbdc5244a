import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { eventually } from '../../testkit/eventually.ts';
import { testOnLinux } from '../../testkit/on-linux.ts';

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
afterEach(async () => {
  for (const name of await readdir(folder)) if (name.endsWith('.test.js')) await rm(join(folder, name));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const jest = (...flags: readonly string[]): readonly string[] => [
  'node_modules/jest/bin/jest.js',
  ...['--rootDir', folder, '--config', join(folder, 'jest.config.json'), '--maxWorkers=2', ...flags],
];

/** Runs each file's text in a worker, as continuous integration runs a suite, and returns the message of each, if it failed. */
async function messagesOf(files: Readonly<Record<string, string>>): Promise<Readonly<Record<string, string>>> {
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  const results = join(folder, 'results.json');
  await execa(process.execPath, jest('--json', `--outputFile=${results}`), {
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

testOnLinux(
  'a worker ends when its jest is killed, in the middle of a test',
  async () => {
    const hanging = `test('hangs', async () => {
    require('node:fs').writeFileSync(__filename + '.pid', String(process.pid));
    await new Promise((resolve) => setTimeout(resolve, 60_000));
  });`;
    const files = ['one', 'two'].map((name) => join(folder, `${name}.test.js`));
    for (const file of files) await writeFile(file, hanging);
    const running = execa(process.execPath, jest(), { cwd: repository, env: { CI: 'true' }, reject: false });
    const workers = await Promise.all(
      files.map((file) =>
        eventually('the test runs', async () => Number(await readFile(`${file}.pid`, 'utf8').catch(() => ''))),
      ),
    );
    running.kill('SIGKILL');
    await running;
    await eventually('both workers have ended', async () => {
      return (await Promise.all(workers.map(isAlive))).every((alive) => !alive);
    });
  },
  60_000,
);

/** A process that has ended, but was not waited for, has no command line any more. */
async function isAlive(pid: number): Promise<boolean> {
  return (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')) !== '';
}
