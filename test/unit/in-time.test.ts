import { expect, test } from '@jest/globals';
import { execa } from 'execa';
import { exitInTime, inTime } from '../../testkit/in-time.ts';

test('returns the value of a promise, and throws its error', async () => {
  await expect(inTime('an answer', Promise.resolve(1))).resolves.toBe(1);
  await expect(inTime('an answer', Promise.reject(new Error('no answer')))).rejects.toThrow('no answer');
});

test('does not wait for a promise that never settles, and names it', async () => {
  await expect(inTime('an answer', new Promise(() => {}), 20)).rejects.toThrow('not within 20 ms: an answer');
});

test('kills a process that does not exit, and shows its output', async () => {
  const script = "console.log('busy'); setInterval(() => {}, 1000)";
  const child = execa(process.execPath, ['--eval', script], { all: true, reject: false });
  await expect(exitInTime('the program', child, 1_000)).rejects.toThrow('the program did not exit; its output: busy');
  expect((await child).signal).toBe('SIGKILL');
});
