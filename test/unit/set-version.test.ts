import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { sectionOf } from '../../tools/release/release-notes.ts';
import { chartWithVersion, releasedChangelog } from '../../tools/release/set-version.ts';

const root = join(import.meta.dirname, '../..');
const changelog = readFileSync(join(root, 'CHANGELOG.md'), 'utf8');

test('the changelog of a release has the unreleased section under the version, and an empty one for the next', () => {
  const released = releasedChangelog(changelog, '9.8.7', new Date('2026-12-01'));
  expect(sectionOf(released, '9.8.7')).toBe(sectionOf(changelog, 'Unreleased'));
  expect(released).toContain('## [Unreleased]\n\n## [9.8.7] - 2026-12-01\n');
  expect(() => sectionOf(released, 'Unreleased')).toThrow('empty section');
  // The next release leaves this one as it is.
  const again = releasedChangelog(
    released.replace('[Unreleased]\n', '[Unreleased]\n\n### Added\n\n- A thing.\n'),
    '9.9.0',
    new Date('2027-01-01'),
  );
  expect(sectionOf(again, '9.8.7')).toBe(sectionOf(released, '9.8.7'));
  expect(sectionOf(again, '9.9.0')).toBe('### Added\n\n- A thing.');
});

test('a release without a change is refused', () => {
  const released = releasedChangelog(changelog, '9.8.7', new Date('2026-12-01'));
  expect(() => releasedChangelog(released, '9.9.0', new Date('2027-01-01'))).toThrow('empty section');
});

test('the chart gets the version, and keeps its comments', () => {
  const chart = readFileSync(join(root, 'charts/echoperator/Chart.yaml'), 'utf8');
  const changed = chartWithVersion(chart, '9.8.7');
  const others = (text: string) => text.split('\n').filter((line) => !/^(version|appVersion):/.test(line));
  expect(others(changed)).toEqual(others(chart));
  expect(changed).toMatch(/^version: 9\.8\.7$/m);
  expect(changed).toMatch(/^appVersion: "9\.8\.7"$/m);
});
