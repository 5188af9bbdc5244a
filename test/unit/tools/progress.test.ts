import { PassThrough } from 'node:stream';
import { expect, it } from '@jest/globals';
import { duration, runSteps, type Step } from '../../../tools/progress.ts';
import { recordingDisplay, until } from './fake-program-source.ts';

it('runs one step after the other and shows a notice at once', async () => {
  const display = recordingDisplay();
  const steps: Step[] = [
    {
      title: 'first',
      expectedMs: 61_000,
      run: async ({ doing, notice }) => {
        doing('never seen: no heartbeat falls into it');
        notice('waiting');
      },
    },
    { title: 'second', run: async () => void display.line('second runs') },
  ];
  await runSteps(steps, display);
  expect(display.lines).toEqual([
    '[1/2] first: about 1 min 1 s',
    '[1/2] first: waiting',
    expect.stringMatching(/^\[1\/2\] first: done in \d+ s$/),
    '[2/2] second',
    'second runs',
    expect.stringMatching(/^\[2\/2\] second: done in \d+ s$/),
  ]);
});

it('prints a heartbeat with the current activity', async () => {
  const display = recordingDisplay(5);
  const run: Step['run'] = async ({ doing }) => {
    doing('compiling fmt');
    await until(() => display.lines.length >= 3);
  };
  await runSteps([{ title: 'build', expectedMs: 2000, run }], display);
  const beat = expect.stringMatching(/^build: \d+ s of about 2 s, compiling fmt$/);
  expect(display.lines.slice(1, 3)).toEqual([beat, beat]);
});

it("stops at the first failing step with the step's error, also on a terminal", async () => {
  const failure = new Error('no');
  const ran: string[] = [];
  const steps: Step[] = [
    { title: 'first', run: () => Promise.reject(failure) },
    { title: 'second', run: async () => void ran.push('second') },
  ];
  await expect(runSteps(steps, recordingDisplay())).rejects.toBe(failure);

  const terminal = Object.assign(new PassThrough().resume(), { isTTY: true, columns: 80, rows: 24 });
  const live = { ...recordingDisplay(), terminal: terminal as unknown as NodeJS.WriteStream };
  await expect(runSteps(steps, live)).rejects.toBe(failure);
  expect(ran).toEqual([]);
});

it.each([
  [400, '0 s'],
  [59_400, '59 s'],
  [60_000, '1 min'],
  [185_000, '3 min 5 s'],
])('formats %d ms as %s', (ms, text) => {
  expect(duration(ms)).toBe(text);
});
