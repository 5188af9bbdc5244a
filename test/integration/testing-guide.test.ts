import { mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from '@jest/globals';
import { execa } from 'execa';
import { apiServerPrograms } from '../../testkit/api-server-programs.ts';
import { dieWithParent } from '../../testkit/die-with-parent.ts';
import { codeBlocks } from '../../testkit/markdown.ts';
import { entries, packageName } from '../../tools/release/npm-package.ts';

const root = join(import.meta.dirname, '../..');

/** Imports the runtime's sources in place of its package. */
const withSources = (text: string): string =>
  Object.entries(entries).reduce(
    (source, [entry, module]) =>
      source.replace(
        `'${join(packageName, entry)}'`,
        `'${pathToFileURL(join(root, 'src/runtime', `${module}.ts`)).href}'`,
      ),
    text,
  );

/** All plans of the perturbation would take four minutes: these are the ones of its first write. */
const shortened = (text: string): string =>
  text.replace('concurrency: 1,', "concurrency: 1, only: ['greeter/create patch configmaps world'],");

const documentation = async (name: string) =>
  codeBlocks(await readFile(join(root, 'docs', name), 'utf8')).filter(({ language }) => language === 'ts');

test.each([
  ['fault', 0, ''],
  ['perturbation', 1, /^\d+ plans, (\d+) of \1 writes perturbed$/],
  ['mutation', 2, /^(\d+) of \1 properties, \d+ values$/],
])('the example of a %s in docs/testing.md runs', async (_, index, output) => {
  const examples = await documentation('testing.md');
  expect(examples).toHaveLength(3);
  const folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER!, 'guide-'));
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  const [greeter] = await documentation('writing-an-operator.md');
  await writeFile(join(folder, 'greeter.ts'), withSources(greeter!.text));
  await writeFile(join(folder, 'example.mts'), shortened(withSources(examples[index]!.text)));
  const [file, args] = dieWithParent(process.execPath, [join(folder, 'example.mts')]);
  const { all, exitCode } = await execa(file, args, {
    cwd: root,
    env: { KUBEBUILDER_ASSETS: await apiServerPrograms(folder) },
    reject: false,
    all: true,
  });
  expect({ all, exitCode }).toEqual({ all: output === '' ? '' : expect.stringMatching(output), exitCode: 0 });
});
