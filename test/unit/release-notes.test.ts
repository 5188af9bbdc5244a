import { describe, expect, test } from '@jest/globals';
import { checkVersions, ReleaseError, sectionOf } from '../../tools/release/release-notes.ts';

const changelog = `# Changelog

## [Unreleased]

## [1.1.0] - 2026-12-01

### Added

- A thing.

## [1.0.0] - 2026-11-01

- The first.

[Unreleased]: https://example.test/compare
[1.0.0]: https://example.test/1.0.0
`;

describe('the notes of a release', () => {
  test('are the section of the version, without heading and links', () => {
    expect(sectionOf(changelog, '1.1.0')).toBe('### Added\n\n- A thing.');
    expect(sectionOf(changelog, '1.0.0')).toBe('- The first.');
  });

  test.each([
    ['1.2.0', 'CHANGELOG.md has no section "## [1.2.0]".'],
    ['1.1', 'CHANGELOG.md has no section "## [1.1]".'],
    ['Unreleased', 'CHANGELOG.md has an empty section for Unreleased.'],
  ])('fail for %s', (version, message) => {
    expect(() => sectionOf(changelog, version)).toThrow(new ReleaseError(message));
  });

  test('fail if a file has another version', () => {
    expect(() => checkVersions({ 'package.json': '1.1.0' }, '1.1.0')).not.toThrow();
    expect(() => checkVersions({ 'package.json': '1.1.0', 'Chart.yaml version': '1.0.0' }, '1.1.0')).toThrow(
      new ReleaseError('The release is 1.1.0, but Chart.yaml version has 1.0.0.'),
    );
  });
});
