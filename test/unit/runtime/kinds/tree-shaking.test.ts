import { dirname, resolve } from 'node:path';
import { expect, test } from '@jest/globals';
import { build } from 'esbuild';

const kinds = resolve(import.meta.dirname, '../../../../packages/runtime/src/built-in-kinds/index.ts');

test('a bundle that imports one kind holds no other, and nothing of the generated client', async () => {
  const { outputFiles, metafile } = await build({
    stdin: { contents: `import { Pod } from '${kinds}';\nconsole.log(Pod);`, resolveDir: dirname(kinds) },
    bundle: true,
    format: 'esm',
    platform: 'node',
    write: false,
    metafile: true,
  });
  const [{ text = '' } = {}] = outputFiles;
  expect([...text.matchAll(/plural: "(\w+)"/g)].map(([, plural]) => plural)).toEqual(['pods']);
  expect(Object.keys(metafile.inputs).filter((path) => path.includes('node_modules'))).toEqual([]);
});
