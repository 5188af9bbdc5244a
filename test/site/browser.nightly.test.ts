import { once } from 'node:events';
import { join } from 'node:path';
import { expect } from '@jest/globals';
import { execa } from 'execa';
import { dieWithParent } from '../../testkit/die-with-parent.ts';
import { eventually } from '../../testkit/eventually.ts';
import { inTime } from '../../testkit/in-time.ts';
import { testOnLinux } from '../../testkit/on-linux.ts';
import { commandOf, descendants } from '../../testkit/process-tree.ts';

const script = join(import.meta.dirname, 'environment/started-browser.ts');

for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
  testOnLinux(`the browser ends when its test is killed with ${signal}`, async () => {
    const [file, args] = dieWithParent(process.execPath, [script]);
    const parent = execa(file, args, { reject: false, buffer: false, stderr: 'inherit' });
    const hasEnded = parent.then(() => Promise.reject(new Error('it has ended before the browser had started')));
    hasEnded.catch(() => {});
    await inTime('the browser has started', Promise.race([once(parent.stdout, 'data'), hasEnded]));
    const started = await descendants(Number(parent.pid));
    expect((await Promise.all(started.map(commandOf))).join('\n')).toContain('--type=renderer');
    parent.kill(signal);
    await inTime('the test has ended', parent);
    await eventually('the browser has ended', async () => {
      const left = (await Promise.all(started.map(commandOf))).filter((command) => command !== '');
      return left.length === 0;
    });
  });
}
