import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '../../testkit/eventually.ts';
import { echo } from '../e2e/environment/cluster.ts';
import { cluster, connect, deleteNamespaces, namespace } from './environment/cluster.ts';
import { printed } from './environment/echos.ts';

beforeAll(connect);

afterAll(deleteNamespaces);

describe('a message is printed exactly', () => {
  test('in a namespace that enforces the restricted Pod Security Standard', async () => {
    const ns = await namespace({ 'pod-security.kubernetes.io/enforce': 'restricted' });
    await cluster.apply(echo('confined', ns, { message: 'within bounds' }));
    await printed('confined', ns);
    expect(await cluster.logOf('confined', ns)).toBe('within bounds\n');
  });
});

describe('an Echo', () => {
  test('is seen by kubectl get with its message and phase', async () => {
    const ns = await namespace();
    await cluster.apply(echo('seen', ns, { message: 'see me' }));
    await printed('seen', ns);
    const [header, row] = (await cluster.kubectl(['get', 'ec', '--namespace', ns])).split('\n');
    expect(header?.split(/\s+/)).toEqual(['NAME', 'MESSAGE', 'PHASE', 'AGE']);
    expect(row).toMatch(/^seen +see me +Succeeded +\S+$/);
    // The Event follows the status.
    await eventually('kubectl describe shows the Event', async () =>
      /Normal +Printed .*Job seen/.test(await cluster.kubectl(['describe', 'echo', 'seen', '--namespace', ns])),
    );
    expect(await cluster.kubectl(['explain', 'echo.spec.message'])).toContain('prints exactly this text');
  });

  test('that gets a new message prints it too', async () => {
    const ns = await namespace();
    await cluster.apply(echo('twice', ns, { message: 'first' }));
    await printed('twice', ns);
    expect(await cluster.logOf('twice', ns)).toBe('first\n');
    await cluster.apply(echo('twice', ns, { message: 'second' }));
    await cluster.kubectl([
      'wait',
      '--for=jsonpath={.status.completedGeneration}=2',
      'echo/twice',
      '-n',
      ns,
      '--timeout=90s',
    ]);
    expect(await cluster.logOf('twice', ns)).toBe('second\n');
  });
});
