import { expect, test } from '@jest/globals';
import { testOnLinux } from '../../testkit/on-linux.ts';
import { memoryMB, parseMemory, withPeakAnonymous } from '../usage.ts';

test('memory is resident, anonymous and at its peak, in MB of 10^6 bytes', () => {
  const status = 'Name:\tnode\nVmPeak:\t 9999 kB\nVmHWM:\t   3000 kB\nVmRSS:\t   2000 kB\nRssAnon:\t    1000 kB\n';
  expect(parseMemory(status)).toEqual({ resident: 2.048, anonymous: 1.024, peak: 3.072 });
  expect(() => parseMemory('VmRSS:\t2000 kB\n')).toThrow('no RssAnon');
});

// /proc is Linux's.
testOnLinux('the peak of anonymous memory includes what the process allocates meanwhile', async () => {
  const { anonymous } = await memoryMB(process.pid);
  const [buffer, peak] = await withPeakAnonymous(process.pid, async () => Buffer.alloc(200e6, 1));
  expect(buffer).toHaveLength(200e6);
  expect(peak).toBeGreaterThan(anonymous + 100);
});
