import { statSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { repository, repositoryAddress } from './folders.ts';

/**
 * Returns what a link of a page of the repository is on the site. A link to another page of the site stays as it is, so
 * that it leads to the same page on GitHub. A link to another file or folder leads to it on GitHub, and an absolute link
 * to a page on GitHub leads to the page of the site.
 *
 * @param link as written on the page
 * @param page path of the page in the repository
 * @param pages the paths of all pages of the site
 * @throws Error if there is no such file
 */
export function siteLink(link: string, page: string, pages: ReadonlySet<string>): string {
  const onGitHub = `${repositoryAddress}/blob/main/`;
  if (link.startsWith(onGitHub)) {
    const rest = link.slice(onGitHub.length);
    return pages.has(withoutAnchor(rest)) ? `/${rest}` : link;
  }
  if (/^[a-z]+:/.test(link) || link.startsWith('#') || link.startsWith('/')) return link;
  const target = normalize(join(dirname(page), link));
  const path = withoutAnchor(target);
  if (pages.has(path)) return link;
  const kind = statSync(join(repository, path)).isDirectory() ? 'tree' : 'blob';
  return `${repositoryAddress}/${kind}/main/${target.replace(/\/$/, '')}`;
}

const withoutAnchor = (path: string): string => path.split('#')[0] ?? '';
