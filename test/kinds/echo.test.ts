import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '../../testkit/eventually.ts';
import { E2eCluster, echo, listOf } from '../e2e/environment/cluster.ts';

let cluster: E2eCluster;
const namespaces: string[] = [];

beforeAll(async () => {
  cluster = await E2eCluster.connect();
});

afterAll(async () => {
  for (const name of namespaces) await cluster.deleteNamespace(name);
});

async function namespace(labels?: Readonly<Record<string, string>>): Promise<string> {
  const name = await cluster.namespace(labels);
  namespaces.push(name);
  return name;
}

const printed = (name: string, namespace: string) =>
  cluster.kubectl(['wait', '--for=condition=Ready', `echo/${name}`, '--namespace', namespace, '--timeout=90s']);

/** What a person may write and a shell, the kubelet, echo or a log may read as their own. */
const messages: Readonly<Record<string, string>> = {
  greeting: 'Hola, 世界!',
  quotes: `"double", 'single' and \`back\``,
  lines: 'first\n\nthird\n',
  emoji: '👩‍🚀 🏳️‍🌈 e\u0301',
  variable: `$(HOME) $HOME ${'$'}{HOME} $$(HOME) $$ $`,
  option: '-n',
  'long-option': '--help',
  format: '%s %d %% \\x41',
  backslashes: '\\n \\t \\\\ \\c \\0101',
  spaces: '  two before, two after  ',
  tab: '\t',
  'carriage-return': 'over\rwritten',
  'kibibytes-4': 'x'.repeat(4096),
  'wide-4096': '界'.repeat(4096),
};

describe('a message is printed exactly', () => {
  test('whatever is in it', async () => {
    const ns = await namespace();
    await cluster.apply(listOf(Object.entries(messages).map(([name, message]) => echo(name, ns, { message }))));
    await cluster.kubectl(['wait', '--for=condition=Ready', 'echo', '--all', '--namespace', ns, '--timeout=240s']);
    const logs: Record<string, string> = {};
    for (const name of Object.keys(messages)) logs[name] = await cluster.logOf(name, ns);
    expect(logs).toEqual(Object.fromEntries(Object.entries(messages).map(([name, text]) => [name, `${text}\n`])));
  });

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
    expect(await cluster.kubectl(['describe', 'echo', 'seen', '--namespace', ns])).toMatch(
      /Normal +Printed .*Job seen/,
    );
    expect(await cluster.kubectl(['explain', 'echo.spec.message'])).toContain('exactly as it stands here');
  });

  test('with a new message prints it too', async () => {
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

  test('that is deleted leaves no Job and no pod', async () => {
    const ns = await namespace();
    await cluster.apply(echo('leaving', ns, { message: 'bye' }));
    await printed('leaving', ns);
    await cluster.kubectl(['delete', 'echo', 'leaving', '--namespace', ns]);
    await eventually('nothing is left', async () => {
      const { items } = await cluster.get<{ items: unknown[] }>('jobs,pods', '--namespace', ns);
      return items.length === 0;
    });
  });
});
