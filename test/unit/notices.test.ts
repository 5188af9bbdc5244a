import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { isReleased, noticePages, withNotice } from '../../tools/generate/generate-notices.ts';

const root = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const pages = globSync('**/*.md', { cwd: root, exclude: ['**/node_modules/**', '**/dist/**', 'coverage/**'] });

const generated = /<!-- The state of publication: [\s\S]*<!-- The end of the state of publication\. -->/;

/** They name packages, but tell no reader to install them. */
const withoutPromise = ['CHANGELOG.md', 'docs/architecture.md'];

/** What exists only after a release. */
const published =
  /npm (?:install|create) (?:--\S+ )*@echoperator|helm repo add echoperator|ghcr\.io\/echoperator|npmjs\.com\/package\/@echoperator/;

describe('the notice that nothing is released', () => {
  test.each([
    ['# Changelog\n\n## [Unreleased]\n', false],
    ['## [Unreleased]\n\n## [0.1.0-rc.1] - 2026-12-01\n', false],
    ['## [Unreleased]\n\n## [0.1.0] - 2026-12-01\n', true],
  ])('of the changelog %j is gone: %j', (changelog, released) => {
    expect(isReleased(changelog)).toBe(released);
    const [path] = noticePages;
    const page = withNotice(path, read(path), changelog);
    expect(page.includes('Nothing is released yet')).toBe(!released);
    expect(withNotice(path, page, read('CHANGELOG.md'))).toBe(read(path));
  });

  test('is on every page that names what a release publishes', () => {
    const promising = pages.filter((path) => !withoutPromise.includes(path) && published.test(read(path)));
    expect(promising.length).toBeGreaterThan(3);
    expect(promising.filter((path) => !noticePages.some((page) => page === path))).toEqual([]);
  });

  test('is the only place that says so', () => {
    const elsewhere = /\bnothing (?:is|was) (?:released|published)|\b(?:released|published) yet\b|\bafter a release\b/i;
    expect(pages.filter((path) => elsewhere.test(read(path).replace(generated, '')))).toEqual([]);
  });
});
