import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '../../testkit/eventually.ts';
import { jobsCreated, operatorWrites } from '../../testkit/operator-writes.ts';
import { echo, listOf } from '../e2e/environment/cluster.ts';
import { Release } from '../e2e/environment/release.ts';
import { cluster, connect, deleteNamespaces, namespace } from './environment/cluster.ts';
import { allPrinted, printed } from './environment/echos.ts';

let release: Release;

beforeAll(async () => {
  await connect();
  release = Release.in(cluster, process.env.KINDS_RELEASE_NAMESPACE ?? '');
});

afterAll(deleteNamespaces);

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
    await allPrinted(ns);
    const logs: Record<string, string> = {};
    for (const name of Object.keys(messages)) logs[name] = await cluster.logOf(name, ns);
    expect(logs).toEqual(Object.fromEntries(Object.entries(messages).map(([name, text]) => [name, `${text}\n`])));
  });
});

describe('an Echo', () => {
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

describe('30 Echos at once', () => {
  const names = Array.from({ length: 30 }, (_, i) => `many-${i}`);
  const all = (ns: string) => listOf(names.map((name) => echo(name, ns, { message: `I am ${name}` })));
  const created = async (ns: string) => jobsCreated(await operatorWrites(cluster.auditLog, ns));

  const expectAllPrintedOnce = async (ns: string) => {
    await allPrinted(ns);
    for (const name of names) expect(await cluster.logOf(name, ns)).toBe(`I am ${name}\n`);
    expect([...(await created(ns))].filter(([, count]) => count > 1)).toEqual([]);
  };

  test('print with 30 pods', async () => {
    const ns = await namespace();
    await cluster.apply(all(ns));
    await expectAllPrintedOnce(ns);
  });

  // Nightly, since the files of a push share the operator and run side by side.
  test('print with 30 pods, none twice, although the operator is killed meanwhile', async () => {
    const ns = await namespace();
    const applying = cluster.apply(all(ns));
    await eventually('some Jobs are there', async () => (await created(ns)).size >= 5);
    await release.kill();
    await applying;
    await expectAllPrintedOnce(ns);
  });
});
