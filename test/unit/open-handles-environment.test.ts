import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
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
      transform: { '\\.ts$': join(repository, 'test/strip-types.js') },
      workerGracefulExitTimeout: 500,
    }),
  );
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function write(files: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
}

/** Starts jest with a worker for each of the files. */
function jest(files: Readonly<Record<string, string>>, ...flags: readonly string[]) {
  const program = ['node_modules/jest/bin/jest.js', '--rootDir', folder, '--config', join(folder, 'jest.config.json')];
  return execa(process.execPath, [...program, '--maxWorkers=2', ...Object.keys(files), ...flags], {
    cwd: repository,
    env: { CI: 'true' },
    reject: false,
  });
}

/**
 * Runs files, given by their text, as continuous integration runs a suite.
 *
 * @returns the message of each file, empty if it passed, and jest's output.
 */
async function run(files: Readonly<Record<string, string>>) {
  await write(files);
  const results = join(folder, 'results.json');
  const { stderr } = await jest(files, '--json', `--outputFile=${results}`);
  const { testResults } = JSON.parse(await readFile(results, 'utf8')) as {
    readonly testResults: readonly { readonly name: string; readonly message: string }[];
  };
  const messages = Object.fromEntries(testResults.map(({ name, message }) => [name.slice(folder.length + 1), message]));
  return { messages, stderr };
}

test('a file fails for what it leaves open, by the place where that was made, and for nothing else', async () => {
  const { messages } = await run({
    'timer.test.js': `test('is left', () => { setTimeout(() => {}, 60_000); });`,
    'nothing.test.js': `test('is left', () => { setTimeout(() => {}, 60_000).unref(); process.stdout.isTTY; });`,
  });
  expect(messages['timer.test.js']).toMatch(/1 left open at the end of the file: Timeout.*timer\.test\.js:1/s);
  expect(messages['nothing.test.js']).toBe('');
}, 60_000);

test('a worker that does not exit says what it waits for, also if the check of its file does not see that', async () => {
  const { messages, stderr } = await run({
    'busy.test.js': `const { setImmediate } = require('timers');
      test('passes', () => { const again = () => setImmediate(again); again(); });`,
    'idle.test.js': `test('makes jest use workers', () => {});`,
  });
  expect(messages['busy.test.js']).toBe('');
  expect(stderr).toMatch(/Jest ended worker \d+, which did not exit. It waits for: .*Immediate/);
}, 60_000);

testOnLinux(
  'a worker ends when jest is killed',
  async () => {
    const files = {
      'long.test.js': `test('waits', async () => {
      require('fs').writeFileSync(${JSON.stringify(join(folder, 'pid'))}, String(process.pid));
      await new Promise((resolve) => { setTimeout(resolve, 60_000); });
    }, 90_000);`,
      // Jest uses no workers if the files that it knows from an earlier run were fast.
      'second.test.js': `test('makes jest use workers', () => {});`,
    };
    await write(files);
    const running = jest(files);
    const pid = await eventually('the test runs', async () => {
      const text = await readFile(join(folder, 'pid'), 'utf8').catch(() => '');
      return text !== '' && text;
    });
    running.kill('SIGKILL');
    await running;
    await eventually(
      'its worker has ended',
      async () => (await readFile(`/proc/${pid}/cmdline`).catch(() => '')).length === 0,
    );
  },
  60_000,
);
