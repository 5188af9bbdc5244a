import { join } from 'node:path';
import { expect } from '@jest/globals';
import { testOnLinux } from '../../testkit/on-linux.ts';
import { killWithPrograms } from '../../testkit/process-tree.ts';

const script = join(import.meta.dirname, 'environment/started-browser.ts');

for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
  testOnLinux(`the browser ends when its test is killed with ${signal}`, async () => {
    expect((await killWithPrograms(script, signal)).join('\n')).toContain('--type=renderer');
  });
}
