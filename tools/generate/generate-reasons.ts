import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bookStoreReasons } from '../../src/controllers/book-store/status.ts';
import { echoReasons } from '../../src/controllers/echo/echo-reconciler.ts';
import { petReasons } from '../../src/controllers/pet/pet-reconciler.ts';
import { podSetReasons } from '../../src/controllers/pod-set/pod-set-reconciler.ts';
import { postgresWriterReasons } from '../../src/controllers/postgres-writer/postgres-writer-reconciler.ts';
import { scheduledEchoReasons } from '../../src/controllers/scheduled-echo/scheduled-echo-reconciler.ts';
import type { Reason } from '../../src/runtime/controller/index.ts';
import { replaceTable } from './tables.ts';

/** A row of a table: a reason that is never reported has no Event. */
type Row = Pick<Reason, 'ready' | 'meaning'> & { readonly event: Reason['event'] | 'none' };
type Rows = Readonly<Record<string, Row>>;

/** The reason of a kind whose controller is off (src/controllers/outside/disabled-controller.ts). */
const controllerDisabled = {
  ControllerDisabled: { ready: 'False', event: 'Warning', meaning: 'The operator runs without this controller.' },
} satisfies Rows;

/** The pages with a generated table of reasons. */
const pages: readonly (readonly [page: string, reasons: Rows])[] = [
  ['docs/echo.md', echoReasons],
  ['docs/scheduled-echo.md', scheduledEchoReasons],
  ['docs/pod-set.md', podSetReasons],
  ['docs/book-store.md', bookStoreReasons],
  ['docs/postgres-writer.md', { ...postgresWriterReasons, ...controllerDisabled }],
  // Adding is written before the call of the store and has no Event.
  ['docs/pet.md', { ...petReasons, Adding: { ...petReasons.Adding, event: 'none' }, ...controllerDisabled }],
];

/** The paths of these pages. */
export const reasonPages: readonly string[] = pages.map(([page]) => page);

/**
 * Returns the content of each page, with its table generated from the reasons in the code.
 *
 * @throws Error if a page lacks the two comments around the table
 */
export async function reasonTables(root: string): Promise<readonly [path: string, content: string][]> {
  return Promise.all(
    pages.map(async ([page, reasons]): Promise<[string, string]> => {
      const text = await readFile(join(root, page), 'utf8');
      return [page, replaceTable(page, text, 'reasons', tableOf(reasons))];
    }),
  );
}

function tableOf(reasons: Rows): string {
  const rows = Object.entries(reasons).map(
    ([reason, { ready, event, meaning }]) => `| \`${reason}\` | ${ready} | ${event} | ${meaning} |\n`,
  );
  return `| reason of Ready | status | Event | meaning |\n| --- | --- | --- | --- |\n${rows.join('')}`;
}
