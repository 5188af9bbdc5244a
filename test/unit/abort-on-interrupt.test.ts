import { once } from 'node:events';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { execa } from 'execa';

const repository = join(import.meta.dirname, '../..');

/** A program with a child process of execa that cleans up after an interrupt. */
const program = (cleanUp: string): string => `
  import { execa } from 'execa';
  import { abortOnInterrupt } from '${join(repository, 'tools/abort-on-interrupt.ts')}';
  const signal = abortOnInterrupt();
  const child = execa('sleep', ['60'], { reject: false });
  signal.addEventListener('abort', async () => { child.kill(); ${cleanUp} });
  console.log('ready');
  await child;
`;

async function start(cleanUp: string) {
  const running = execa(process.execPath, ['--input-type=module', '--eval', program(cleanUp)], {
    cwd: repository,
    reject: false,
  });
  await once(running.stdout, 'data');
  return { running };
}

test.each(['SIGINT', 'SIGTERM'] as const)('%s leaves time to clean up and is the reason of the abort', async (name) => {
  const { running } = await start(
    "await new Promise((done) => setTimeout(done, 100)); console.log('clean after', signal.reason);",
  );
  running.kill(name);
  const { stdout, exitCode } = await running;
  expect([exitCode, stdout]).toEqual([0, `ready\nclean after ${name}`]);
});

test('a second signal ends the process at once', async () => {
  const { running } = await start('setInterval(() => undefined, 1000);');
  const again = setInterval(() => running.kill('SIGINT'), 100);
  const { exitCode } = await running;
  clearInterval(again);
  expect(exitCode).toBe(130);
});
