import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type CustomKind, customResourceDefinition } from '@echoperator/runtime';
import { createClient } from '@echoperator/runtime/client';
import type { CustomObject, DefinedController } from '@echoperator/runtime/controller';
import { connectOperator } from '@echoperator/runtime/process';
import { ApiServer, eventually, FaultProxy, isWatch } from '@echoperator/testing';
import { expect, test } from '@jest/globals';
import { KubeConfig } from '@kubernetes/client-node';
import { pino } from 'pino';
import { apiServerPrograms } from '../../testkit/api-server-programs.ts';
import { codeBlocks } from '../../testkit/markdown.ts';
import { makePageFolder } from '../../testkit/page-folder.ts';

const docs = join(import.meta.dirname, '../../docs');
const codeOf = async (page: string) =>
  codeBlocks(await readFile(join(docs, page), 'utf8')).flatMap(({ language, text }) =>
    language === 'ts' ? [text] : [],
  );

class PhoneBook {
  readonly entries = new Map<string, string>();
  async put(uid: string, who: string): Promise<void> {
    this.entries.set(uid, who);
  }
  async remove(uid: string): Promise<void> {
    this.entries.delete(uid);
  }
}

interface Before {
  start(config: KubeConfig, phoneBook: PhoneBook): () => void;
}
interface After {
  greetingsIn(phoneBook: PhoneBook): DefinedController;
}
interface Guide {
  readonly Greeting: CustomKind<CustomObject<{ readonly who: string }, object>>;
}

test('a deletion under a cut watch is lost by the operator on client-node, and not by the one on the runtime', async () => {
  const folder = await makePageFolder();
  await using cleanUp = new AsyncDisposableStack();
  cleanUp.defer(() => rm(folder, { recursive: true, force: true }));
  const [before = '', after = ''] = await codeOf('from-client-node.md');
  const [greeter = ''] = await codeOf('writing-an-operator.md');
  await writeFile(join(folder, 'before.ts'), before);
  await writeFile(join(folder, 'after.ts'), after);
  await writeFile(join(folder, 'greeter.ts'), greeter);
  const { start }: Before = await import(join(folder, 'before.ts'));
  const { greetingsIn }: After = await import(join(folder, 'after.ts'));
  const { Greeting }: Guide = await import(join(folder, 'greeter.ts'));

  process.env.KUBEBUILDER_ASSETS = await apiServerPrograms(folder);
  const server = cleanUp.use(await ApiServer.start({ crds: [customResourceDefinition(Greeting)] }));
  const proxy = cleanUp.use(await FaultProxy.start({ upstream: server.connection, tls: server.tls }));
  const client = createClient(server.connection, { fieldManager: 'test' });
  cleanUp.defer(() => client.close());

  const keyOf = (name: string) => ({ namespace: 'default', name });
  /** Deletes one Greeting and changes another while the watch is cut. Returns the entries once the change has arrived. */
  const entriesAfterCut = async (phoneBook: PhoneBook): Promise<readonly string[]> => {
    for (const name of ['deleted', 'changed']) {
      await client.create(Greeting, { metadata: keyOf(name), spec: { who: name } });
    }
    await eventually('the phone book has both entries', async () => phoneBook.entries.size === 2);
    const cut = proxy.inject({ type: 'cut', how: 'reset' }, { on: isWatch });
    await eventually('a watch is cut', async () => cut.count > 0);
    await client.delete(Greeting, keyOf('deleted'));
    await client.patch(Greeting, keyOf('changed'), { type: 'merge', body: { spec: { who: 'again' } } });
    cut.off();
    await eventually('the change has arrived', async () => [...phoneBook.entries.values()].includes('again'));
    return [...phoneBook.entries.values()].sort();
  };

  const old = new PhoneBook();
  const config = new KubeConfig();
  const url = proxy.connection.server.href.replace(/\/$/, '');
  config.loadFromClusterAndUser({ name: 'proxy', server: url, skipTLSVerify: true }, { name: 'user' });
  const stopOld = start(config, old);
  try {
    // Events of one watch are in order, so the deletion would have arrived before the change.
    expect(await entriesAfterCut(old)).toEqual(['again', 'deleted']);
  } finally {
    stopOld();
  }
  await client.delete(Greeting, keyOf('changed'));

  const current = new PhoneBook();
  const operator = await connectOperator({
    name: 'greeter',
    log: pino({ level: 'silent' }),
    connection: proxy.connection,
  });
  greetingsIn(current).add(operator);
  const stop = new AbortController();
  const running = operator.run(stop.signal);
  try {
    await entriesAfterCut(current);
    await eventually('the entry is removed', async () => current.entries.size === 1);
    expect([...current.entries.values()]).toEqual(['again']);
  } finally {
    stop.abort();
    await running;
  }
});
