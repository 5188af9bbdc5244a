import { mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from '@jest/globals';
import { execa } from 'execa';
import { programs } from '../../testkit/api-server-programs.ts';
import { codeBlocks } from '../../testkit/markdown.ts';

const root = join(import.meta.dirname, '../..');

test('the example of docs/testing.md runs', async () => {
  const page = await readFile(join(root, 'docs/testing.md'), 'utf8');
  const [example, ...others] = codeBlocks(page).filter(({ language }) => language === 'ts');
  expect(others).toEqual([]);
  const folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER!, 'guide-'));
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  const source = (path: string) => `'${pathToFileURL(join(root, 'src', path)).href}'`;
  const text = example!.text
    .replace("'echoperator/runtime'", source('runtime/index.ts'))
    .replace("'echoperator/runtime/testing'", source('runtime/testing/index.ts'));
  await writeFile(join(folder, 'example.mts'), text);
  const { all, exitCode } = await execa(process.execPath, [join(folder, 'example.mts')], {
    cwd: root,
    env: { KUBEBUILDER_ASSETS: await programs(folder) },
    reject: false,
    all: true,
  });
  expect({ all, exitCode }).toEqual({ all: '', exitCode: 0 });
});
