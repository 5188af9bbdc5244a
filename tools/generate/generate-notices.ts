import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { replacePart } from '@echoperator/cli';

const part = 'state of publication';

/** The pages that name packages, images or charts that a release publishes. */
export const noticePages = [
  'README.md',
  'charts/echoperator/README.md',
  'docs/generate.md',
  'docs/getting-started.md',
  'docs/install.md',
  'docs/releasing.md',
  'docs/stability.md',
  'docs/testing.md',
  'docs/writing-an-operator.md',
  'packages/cli/README.md',
  'packages/create-operator/README.md',
  'packages/runtime/README.md',
  'packages/testing/README.md',
  'site/landing/index.md',
] as const;

/** Absolute, because some of the pages are published in packages. */
const instructions = 'https://github.com/echoperator/echoperator/blob/main/docs/releasing.md#before-the-first-release';

/** Whether the changelog has a section for a version that is not a prerelease. `npm version` adds it. */
export const isReleased = (changelog: string): boolean => /^## \[\d+\.\d+\.\d+\]/m.test(changelog);

/** Returns the page with the notice that nothing is published, or without it if the changelog has a release. */
export function withNotice(path: string, page: string, changelog: string): string {
  const notice = `> **Nothing is released yet.** The packages, images and charts that this page names do not exist before the first release.
> [Until then, build them from a clone](${instructions}).
`;
  return replacePart(path, page, part, isReleased(changelog) ? '' : notice);
}

/**
 * Returns each page with its notice.
 *
 * @param generated pages with other generated parts, by path; the others are read.
 */
export async function notices(
  root: string,
  generated: ReadonlyMap<string, string>,
): Promise<readonly (readonly [path: string, content: string])[]> {
  const read = (path: string): Promise<string> => readFile(join(root, path), 'utf8');
  const changelog = await read('CHANGELOG.md');
  return Promise.all(
    noticePages.map(
      async (path) => [path, withNotice(path, generated.get(path) ?? (await read(path)), changelog)] as const,
    ),
  );
}
