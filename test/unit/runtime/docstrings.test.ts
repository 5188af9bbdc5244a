import { readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { entries } from '../../../tools/release/npm-package.ts';

const runtime = join(import.meta.dirname, '../../../src/runtime');

interface Exported {
  readonly name: string;
  readonly file: string;
}

/** The generated kinds have one comment for all, in their index. */
const { './kinds': _, ...documentedEntries } = entries;

/** The names that an index file exports, each with the file that declares it. An index file only has `export … from`. */
function exportsOf(index: string): readonly Exported[] {
  const text = readFileSync(index, 'utf8');
  const file = (from: string | undefined): string => join(dirname(index), from ?? '');
  const namespaces = [...text.matchAll(/^export \* as \w+ from '(.+)';$/gm)].flatMap(([, from]) =>
    declaredIn(file(from)),
  );
  const named = [...text.matchAll(/^export (?:type )?\{([^}]*)\} from '(.+)';$/gm)].flatMap(([, names = '', from]) =>
    names
      .split(',')
      .map((name) => name.trim().replace(/^type /, ''))
      .filter((name) => name !== '')
      .map((name) => declarationOf(name, file(from))),
  );
  return [...namespaces, ...named];
}

/** An entry may export what a part's own index exports. */
function declarationOf(name: string, file: string): Exported {
  const nested = file.endsWith('/index.ts') ? exportsOf(file).find((each) => each.name === name) : undefined;
  return nested ?? { name, file };
}

function declaredIn(file: string): readonly Exported[] {
  const names = readFileSync(file, 'utf8').matchAll(/^export (?:const|function) (\w+)/gm);
  return [...names].map(([, name = '']) => ({ name, file }));
}

/** Whether a docstring is right above the declaration of the name. @throws Error if the file does not declare it */
function isDocumented({ name, file }: Exported): boolean {
  const lines = readFileSync(file, 'utf8').split('\n');
  const declaration = new RegExp(
    `^export (?:abstract |async )*(?:class|const|function\\*?|interface|type) ${name.replaceAll('$', '\\$')}\\b`,
  );
  const at = lines.findIndex((line) => declaration.test(line));
  if (at === -1) throw new Error(`${relative(runtime, file)} does not declare ${name}`);
  if (!lines[at - 1]?.endsWith('*/')) return false;
  const opening = lines.slice(0, at).findLast((line) => /^\s*\/\*/.test(line));
  return opening?.startsWith('/**') ?? false;
}

describe.each(Object.values(documentedEntries))('what src/runtime/%s.ts exports', (module) => {
  const exported = exportsOf(join(runtime, `${module}.ts`));

  test('is found', () => {
    expect(exported.length).toBeGreaterThan(8);
  });

  test('has a docstring, every bit of it', () => {
    const bare = exported.filter((each) => !isDocumented(each));
    expect(bare.map(({ name, file }) => `${relative(runtime, file)}: ${name}`)).toEqual([]);
  });
});
