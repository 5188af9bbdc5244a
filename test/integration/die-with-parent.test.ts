import { join } from 'node:path';
import { expect } from '@jest/globals';
import { testOnLinux } from '../../testkit/on-linux.ts';
import { killWithPrograms } from '../../testkit/process-tree.ts';

const script = join(import.meta.dirname, 'environment/started-programs.ts');

testOnLinux('programs that a test starts end when its process is killed with SIGKILL', async () => {
  const programs = (await killWithPrograms(script, 'SIGKILL')).join('\n');
  const onControlPlane = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kwok'];
  for (const program of [...onControlPlane, 'operator/main.js', 'petstore/main.js', 'postgres']) {
    expect(programs).toContain(program);
  }
});
