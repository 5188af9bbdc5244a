import { once } from 'node:events';
import { mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, test } from '@jest/globals';
import { execa } from 'execa';
import { apiServerPrograms } from '../../testkit/api-server-programs.ts';
import { dieWithParent } from '../../testkit/die-with-parent.ts';
import { codeBlocks } from '../../testkit/markdown.ts';

const root = join(import.meta.dirname, '../..');

/** All plans of a perturbation would take minutes: these are one of each write that matters. */
const shortened = (code: string): string => {
  const only = code.includes("'phone-book'")
    ? ['phone-book/create PUT entry reply-lost', 'phone-book/delete DELETE entry reply-lost']
    : ['greeter/create patch configmaps world reply-lost'];
  return code.replace('scenarios: [', `only: ${JSON.stringify(only)}, scenarios: [`);
};

/** The system outside of the cluster that the page describes. */
async function startPhoneBook() {
  const entries = new Map<string, string>();
  const server = createServer((request, response) => {
    const path = request.url?.slice(1) ?? '';
    const respond = async () => {
      const body = await text(request);
      if (request.method === 'PUT') entries.set(path, body);
      if (request.method === 'DELETE') entries.delete(path);
      const ofNamespace = [...entries].filter(([key]) => key.startsWith(`${path}/`));
      response.end(JSON.stringify(ofNamespace.map(([key, who]) => [key.slice(path.length), who])));
    };
    respond().catch(() => response.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    entries,
    [Symbol.asyncDispose]: async () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

const documentation = async (name: string) =>
  codeBlocks(await readFile(join(root, 'docs', name), 'utf8')).filter(({ language }) => language === 'ts');

test.each([
  ['simulation', 0, ''],
  ['exploration', 1, '50 schedules'],
  ['fault', 2, ''],
  ['perturbation', 3, '1 plans, 1 of 1 writes perturbed'],
  ['perturbation outside of the cluster', 4, '2 plans, 2 of 2 writes perturbed'],
  ['mutation', 5, /^(\d+) of \1 properties, \d+ values$/],
])('the example of a %s in docs/testing.md runs', async (_, index, output) => {
  await using phoneBook = await startPhoneBook();
  const examples = await documentation('testing.md');
  expect(examples).toHaveLength(6);
  const folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER!, 'guide-'));
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  const [greeter] = await documentation('writing-an-operator.md');
  await writeFile(join(folder, 'greeter.ts'), greeter!.text);
  await writeFile(join(folder, 'example.mts'), shortened(examples[index]!.text));
  const [file, args] = dieWithParent(process.execPath, [join(folder, 'example.mts')]);
  const { all, exitCode } = await execa(file, args, {
    cwd: root,
    env: { KUBEBUILDER_ASSETS: await apiServerPrograms(folder), PHONE_BOOK: phoneBook.url },
    reject: false,
    all: true,
  });
  expect({ all, exitCode }).toEqual({
    all: typeof output === 'string' ? output : expect.stringMatching(output),
    exitCode: 0,
  });
  expect([...phoneBook.entries]).toEqual([]);
});
