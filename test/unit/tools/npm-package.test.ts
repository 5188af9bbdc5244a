import { expect, test } from '@jest/globals';
import { entriesOf, publishedManifest } from '../../../tools/release/npm-package.ts';

const manifest = {
  name: '@scope/kit',
  version: '0.0.0',
  exports: { '.': './src/index.ts', './cache': './src/cache/index.ts' },
  dependencies: { undici: '^8.12.4' },
  peerDependencies: { '@scope/core': '*', typebox: '^1.4.3' },
};

test('the entries of a package are the modules that its manifest exports, by what an import says', () => {
  expect([...entriesOf(manifest)]).toEqual([
    ['@scope/kit', 'index'],
    ['@scope/kit/cache', 'cache/index'],
  ]);
});

test('a published manifest leads to compiled code, and asks for the other package in its own version', () => {
  expect(publishedManifest(manifest, '1.2.3')).toEqual({
    name: '@scope/kit',
    version: '1.2.3',
    files: ['dist'],
    exports: {
      '.': { types: './dist/index.d.ts', default: './dist/index.js' },
      './cache': { types: './dist/cache/index.d.ts', default: './dist/cache/index.js' },
    },
    dependencies: { undici: '^8.12.4' },
    peerDependencies: { '@scope/core': '1.2.3', typebox: '^1.4.3' },
  });
});

test('the commands of a published manifest are compiled code', () => {
  const published = publishedManifest({ ...manifest, bin: { kit: './src/main.ts' } }, '1.2.3');
  expect(published).toMatchObject({ bin: { kit: 'dist/main.js' } });
});
