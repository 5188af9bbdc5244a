import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { siteLink } from '../../site/links.ts';
import { landingPages, pagesOf, repositoryPages, sections } from '../../site/navigation.ts';

const root = join(import.meta.dirname, '../..');

describe('the navigation of the site', () => {
  test('has each page of docs/ in one list of site/navigation.ts', () => {
    const pages = globSync('docs/*.md', { cwd: root });
    expect(pages.length).toBeGreaterThan(20);
    expect(pages.filter((page) => repositoryPages.filter((one) => one === page).length !== 1)).toEqual([]);
  });

  test('has no page that does not exist', () => {
    expect(repositoryPages.filter((page) => !existsSync(join(root, page)))).toEqual([]);
    expect(landingPages.filter((page) => !existsSync(join(root, 'site/landing', page)))).toEqual([]);
  });

  test('starts each section with a page of the site', () => {
    const all = new Set<string>([...repositoryPages, ...landingPages]);
    expect(sections.filter(({ start }) => !all.has(start))).toEqual([]);
  });

  test.each(sections.map((section) => ({ name: section.name, pages: pagesOf(section) })))(
    'has pages in section $name',
    ({ pages }) => {
      expect(pages.length).toBeGreaterThan(1);
    },
  );

  const opening = (page: string): string => readFileSync(join(root, page), 'utf8').slice(0, 1200);

  test.each([
    ['tutorials', /\bThis tutorial\b/],
    ['howTo', /\bThis guide\b/],
    ['reference', /\bThis page is the reference\b/],
    ['explanation', /\bThis page explains\b/],
  ] as const)('has a page of docs/ among the %s if it says so', (group, words) => {
    const said = globSync('docs/*.md', { cwd: root }).filter((page) => words.test(opening(page)));
    const listed = new Set(sections.flatMap((section) => section[group]));
    expect(said.filter((page) => !listed.has(page))).toEqual([]);
  });
});

describe('a link of a page', () => {
  const pages = new Set(['docs/echo.md', 'docs/index.md', 'README.md']);
  const link = (target: string, page = 'docs/echo.md'): string => siteLink(target, page, pages);

  test('stays as it is if it leads to a page of the site, to a heading or elsewhere', () => {
    expect(link('index.md#kinds')).toBe('index.md#kinds');
    expect(link('../README.md')).toBe('../README.md');
    expect(link('#settings')).toBe('#settings');
    expect(link('https://kube.rs')).toBe('https://kube.rs');
  });

  test('leads to the repository if it leads to another file or folder', () => {
    const repository = 'https://github.com/echoperator/echoperator';
    expect(link('../examples/echo.yaml')).toBe(`${repository}/blob/main/examples/echo.yaml`);
    expect(link('../CONTRIBUTING.md#set-up')).toBe(`${repository}/blob/main/CONTRIBUTING.md#set-up`);
    expect(link('examples/', 'README.md')).toBe(`${repository}/tree/main/examples`);
  });

  test('leads to the page of the site if it names that page in the repository', () => {
    const echo = 'https://github.com/echoperator/echoperator/blob/main/docs/echo.md';
    expect(link(`${echo}#spec`)).toBe('/docs/echo.md#spec');
    expect(link(echo.replace('echo.md', 'other.md'))).toBe(echo.replace('echo.md', 'other.md'));
  });

  test('must lead to a file that exists', () => {
    expect(() => link('../no-such-file.ts')).toThrow('no-such-file.ts');
  });
});
