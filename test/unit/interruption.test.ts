import { once } from 'node:events';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { execa } from 'execa';

const repository = join(import.meta.dirname, '../..');

/** A program with a child of execa's, as all of ours have, that needs a moment to clean up. */
const program = (cleanUp: string): string => `
  import { execa } from 'execa';
  import { interruption } from '${join(repository, 'tools/interruption.ts')}';
  const signal = interruption();
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

test.each(['SIGINT', 'SIGTERM'] as const)('%s leaves the time to clean up, and is the reason', async (name) => {
  const { running } = await start(
    "await new Promise((done) => setTimeout(done, 100)); console.log('clean after', signal.reason);",
  );
  running.kill(name);
  const { stdout, exitCode } = await running;
  expect([exitCode, stdout]).toEqual([0, `ready\nclean after ${name}`]);
});

test('a second one ends the process, whatever it is doing', async () => {
  const { running } = await start('setInterval(() => undefined, 1000);');
  const again = setInterval(() => running.kill('SIGINT'), 100);
  const { exitCode } = await running;
  clearInterval(again);
  expect(exitCode).toBe(130);
});
