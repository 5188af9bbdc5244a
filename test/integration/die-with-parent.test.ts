import { once } from 'node:events';
import { join } from 'node:path';
import { expect } from '@jest/globals';
import { execa } from 'execa';
import { dieWithParent } from '../../testkit/die-with-parent.ts';
import { eventually } from '../../testkit/eventually.ts';
import { inTime } from '../../testkit/in-time.ts';
import { testOnLinux } from '../../testkit/on-linux.ts';
import { commandOf, descendants } from '../../testkit/process-tree.ts';

const script = join(import.meta.dirname, 'environment/started-programs.ts');

testOnLinux('programs that a test starts end when its process is killed with SIGKILL', async () => {
  const [file, args] = dieWithParent(process.execPath, [script]);
  const parent = execa(file, args, { reject: false, buffer: false, stderr: 'inherit' });
  const hasEnded = parent.then(() => Promise.reject(new Error('it has ended before its programs had started')));
  hasEnded.catch(() => {});
  await inTime('its programs have started', Promise.race([once(parent.stdout, 'data'), hasEnded]));
  const started = await descendants(Number(parent.pid));
  const commands = (await Promise.all(started.map(commandOf))).join('\n');
  const onControlPlane = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kwok'];
  for (const program of [...onControlPlane, 'operator/main.js', 'petstore/main.js', 'postgres']) {
    expect(commands).toContain(program);
  }
  parent.kill('SIGKILL');
  await parent;
  await eventually('all have ended', async () => {
    const left = (await Promise.all(started.map(commandOf))).filter((command) => command !== '');
    return left.length === 0;
  });
});
