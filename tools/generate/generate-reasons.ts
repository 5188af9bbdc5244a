import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bookStoreReasons } from '../../src/controllers/book-store/status.ts';
import { echoReasons } from '../../src/controllers/echo/echo-reconciler.ts';
import { podSetReasons } from '../../src/controllers/pod-set/pod-set-reconciler.ts';
import { scheduledEchoReasons } from '../../src/controllers/scheduled-echo/scheduled-echo-reconciler.ts';
import type { Reasons } from '../../src/runtime/controller/index.ts';

/** The pages that have a table of the reasons of a kind. */
const pages: readonly (readonly [page: string, reasons: Reasons])[] = [
  ['docs/echo.md', echoReasons],
  ['docs/scheduled-echo.md', scheduledEchoReasons],
  ['docs/pod-set.md', podSetReasons],
  ['docs/book-store.md', bookStoreReasons],
];

const begin = '<!-- The reasons of Ready: generated from src/controllers by `make generate`. -->\n\n';
const end = '\n<!-- The end of the reasons. -->\n';

/** The paths of the pages that have generated parts. */
export const reasonPages: readonly string[] = pages.map(([page]) => page);

/**
 * The pages with their tables as the code declares the reasons, by path.
 *
 * @throws Error if a page does not have the two comments that the table stands between.
 */
export async function reasonTables(root: string): Promise<readonly [path: string, content: string][]> {
  return Promise.all(
    pages.map(async ([page, reasons]): Promise<[string, string]> => {
      const text = await readFile(join(root, page), 'utf8');
      const [before, rest] = text.split(begin, 2);
      const after = rest?.slice(rest.indexOf(end));
      if (before === undefined || after === undefined || !after.startsWith(end)) {
        throw new Error(`${page} lacks the comments that its table of reasons stands between`);
      }
      return [page, before + begin + tableOf(reasons) + after];
    }),
  );
}

function tableOf(reasons: Reasons): string {
  const rows = Object.entries(reasons).map(
    ([reason, { ready, event, meaning }]) => `| \`${reason}\` | ${ready} | ${event} | ${meaning} |\n`,
  );
  return `| reason of Ready | status | Event | meaning |\n| --- | --- | --- | --- |\n${rows.join('')}`;
}
