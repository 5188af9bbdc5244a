import { describe, expect, test } from '@jest/globals';
import {
  importedPackages,
  ManifestError,
  type RepositoryManifest,
  runtimeManifest,
} from '../../../tools/release/npm-package.ts';

const repository: RepositoryManifest = {
  version: '1.2.3',
  license: 'MIT',
  repository: { type: 'git' },
  engines: { node: '>=24' },
  dependencies: { envalid: '1.0.0', typebox: '1.4.3', undici: '8.12.4' },
  devDependencies: { '@scope/kit': '2.0.0', jest: '30.0.0' },
};
const file = (path: string, ...specifiers: readonly string[]) => ({
  path,
  text: specifiers.map((name) => `import { it } from '${name}';\n`).join(''),
});

describe('the packages that code imports', () => {
  test.each<[string, string, readonly string[]]>([
    ['a static import', "import { Pool } from 'undici';", ['undici']],
    ['an export', "export { KubeConfig } from '@kubernetes/client-node';", ['@kubernetes/client-node']],
    ['one for its effects', "import 'undici';", ['undici']],
    ['one on demand', "const { ApiServer } = await import('@scope/kit');", ['@scope/kit']],
    ['a type in a declaration', 'type A = import("typebox").TSchema;', ['typebox']],
    ['a part of a package', "import { Check } from 'typebox/value';", ['typebox']],
    ['what lies beside it', "import { Store } from './store.js';", []],
    ['a module of Node', "import 'node:net';\nimport 'fs';", []],
    ['an example in a comment', "/**\n * import { it } from 'nothing';\n */", []],
  ])('%s', (_what, text, expected) => {
    expect([...importedPackages(text)]).toEqual(expected);
  });
});

describe("the package's manifest", () => {
  test('names what the runtime imports and nothing else', () => {
    const manifest = runtimeManifest(repository, [
      file('dist/index.js', 'undici', './kind/index.js'),
      file('dist/kind/index.d.ts', 'typebox'),
      file('dist/testing/index.js', '@scope/kit', 'undici'),
    ]);
    expect(manifest).toMatchObject({
      version: '1.2.3',
      dependencies: { undici: '^8.12.4' },
      peerDependencies: { typebox: '^1.4.3', '@scope/kit': '^2.0.0' },
      peerDependenciesMeta: { '@scope/kit': { optional: true } },
    });
    expect(JSON.stringify(manifest)).not.toMatch(/envalid|jest/);
  });

  test('is refused for what the repository does not depend on itself', () => {
    const build = () => runtimeManifest(repository, [file('dist/index.js', 'left-pad')]);
    expect(build).toThrow(ManifestError);
    expect(build).toThrow('src/runtime imports left-pad');
  });
});
