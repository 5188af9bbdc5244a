import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { controllerNames } from '../../src/kinds.ts';
import { controllers } from '../../src/operator.ts';
import { linksOf } from '../../testkit/markdown.ts';
import { pageOf } from '../../tools/generate/file-names.ts';

const repository = join(import.meta.dirname, '../..');

const files = readdirSync(repository, { withFileTypes: true })
  .filter((entry) => !entry.name.startsWith('.') && !['node_modules', 'dist', 'coverage'].includes(entry.name))
  .flatMap((entry) => {
    if (!entry.isDirectory()) return [entry.name];
    return readdirSync(join(repository, entry.name), { recursive: true, encoding: 'utf8' }).map((path) =>
      join(entry.name, path),
    );
  });
const documents = files
  .filter((path) => path.endsWith('.md') && !/(?:^|\/)(?:node_modules|dist)\//.test(path))
  .map((path) => ({ path, text: readFileSync(join(repository, path), 'utf8') }));

const makefile = readFileSync(join(repository, 'Makefile'), 'utf8');
const targets = [...makefile.matchAll(/^([a-z0-9-]+):/gm)].map((match) => match[1]);
const scriptsOf = (manifest: string): Readonly<Record<string, string>> =>
  JSON.parse(readFileSync(join(repository, manifest), 'utf8')).scripts;
const scripts = scriptsOf('package.json');
/** The scripts of an operator that `npm create` makes. */
const createdScripts = scriptsOf('packages/create-operator/template/_package.json');

describe('the documents', () => {
  test('include the main pages', () => {
    expect(documents.map(({ path }) => path)).toEqual(
      expect.arrayContaining(['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'charts/echoperator/README.md']),
    );
  });

  test.each(documents)('$path links only to existing files', ({ path, text }) => {
    const local = linksOf(text)
      .map((link) => link.replace(/#.*/, ''))
      .filter((link) => link !== '' && !/^[a-z]+:/.test(link));
    expect(local.filter((link) => !existsSync(join(repository, dirname(path), link)))).toEqual([]);
  });

  test.each(documents)('$path names only existing targets of make and scripts of npm', ({ path, text }) => {
    const known = { ...scripts, ...(/create-operator|getting-started/.test(path) && createdScripts) };
    const made = [...text.matchAll(/(?:`|^ {4})make ([a-z0-9-]+)/gm)].map((match) => match[1]);
    const run = [...text.matchAll(/npm run ([a-z:-]+)/g)].map((match) => String(match[1]));
    expect(made.filter((target) => !targets.includes(target))).toEqual([]);
    expect(run.filter((script) => !(script in known))).toEqual([]);
  });
});

describe('the section Security of a kind', () => {
  const sectionOf = (page: string): string =>
    /^## Security\n(.*?)^## /ms.exec(readFileSync(join(repository, page), 'utf8'))?.[1]?.toLowerCase() ?? '';
  /** The rules of a controller that write objects of other kinds: what its kind lets a user do. */
  const writes = controllerNames.flatMap((name) => {
    const { kind, permissions } = controllers[name];
    return permissions
      .filter(({ apiGroups }) => !apiGroups?.includes(kind.group))
      .flatMap(({ resources = [], verbs }) => resources.map((resource) => ({ page: pageOf(name), resource, verbs })))
      .filter(({ verbs }) => verbs.some((verb) => ['create', 'patch', 'delete'].includes(verb)));
  });

  test.each(writes)('of $page says that it lets a user write $resource', ({ page, resource, verbs }) => {
    const text = sectionOf(page);
    const singular = resource.slice(0, -1);
    expect(text).toContain(singular);
    for (const verb of ['create', 'delete'].filter((each) => verbs.includes(each))) expect(text).toContain(verb);
  });
});

describe('the Makefile', () => {
  test('describes every target', () => {
    const explained = [...makefile.matchAll(/^([a-z0-9-]+):.*## .+$/gm)].map((match) => match[1]);
    expect(targets.filter((target) => !explained.includes(target))).toEqual([]);
  });

  test('runs only existing files', () => {
    const files = [...makefile.matchAll(/@node (\S+\.ts)/g)].map((match) => String(match[1]));
    expect(files.length).toBeGreaterThan(3);
    expect(files.filter((file) => !existsSync(join(repository, file)))).toEqual([]);
  });
});
