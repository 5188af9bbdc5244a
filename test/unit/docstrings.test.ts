import { readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { entriesOf, manifestOf, publishedPackages } from '../../tools/release/npm-package.ts';

const packages = join(import.meta.dirname, '../../packages');

interface Exported {
  readonly name: string;
  readonly file: string;
}

/** The generated kinds have one comment for all, in their index. What is internal is no API. */
const undocumented = ['@echoperator/runtime/kinds', '@echoperator/runtime/internal'];

/** By what an import says: the file of the entry. */
const documentedEntries = (
  await Promise.all(
    publishedPackages.map(async (name) =>
      [...entriesOf(await manifestOf(name))].map(
        ([entry, module]) => [entry, join(packages, name, 'src', `${module}.ts`)] as const,
      ),
    ),
  )
)
  .flat()
  .filter(([entry]) => !undocumented.includes(entry));

/**
 * The names that an index file exports, each with the file that declares it. An index file only has `export … from`.
 */
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
      .map((name) => ({ name, file: file(from) })),
  );
  return [...namespaces, ...named];
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
  if (at === -1) throw new Error(`${relative(packages, file)} does not declare ${name}`);
  if (!lines[at - 1]?.endsWith('*/')) return false;
  const opening = lines.slice(0, at).findLast((line) => /^\s*\/\*/.test(line));
  return opening?.startsWith('/**') ?? false;
}

describe.each(documentedEntries)('what %s exports', (_, file) => {
  const exported = exportsOf(file);

  test('is found', () => {
    expect(exported.length).toBeGreaterThan(5);
  });

  test('has a docstring, every bit of it', () => {
    const bare = exported.filter((each) => !isDocumented(each));
    expect(bare.map(({ name, file }) => `${relative(packages, file)}: ${name}`)).toEqual([]);
  });
});
