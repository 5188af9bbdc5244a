import { readFile } from 'node:fs/promises';
import { expect } from '@jest/globals';
import { firstProcessStartedAtMs } from '../../../../../packages/runtime/src/leader-election/crash-detection/container-instance.ts';
import { testOnLinux } from '../../../../../testkit/on-linux.ts';

testOnLinux('the first process started before this one and after the machine booted', async () => {
  const startedAtMs = firstProcessStartedAtMs();
  expect(startedAtMs).toBeLessThanOrEqual(performance.timeOrigin + 10);
  const bootedAtMs = Number(/^btime (\d+)$/m.exec(await readFile('/proc/stat', 'utf8'))?.[1]) * 1000;
  // btime has whole seconds.
  expect(startedAtMs).toBeGreaterThan(bootedAtMs - 1000);
});
