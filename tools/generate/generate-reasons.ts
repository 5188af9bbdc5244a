import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Reason } from '@echoperator/runtime/controller';
import { commonReasons } from '../../packages/runtime/src/controller/outcome.ts';
import { bookStoreConditions, volumeReasons } from '../../src/kinds/book-store/reasons.ts';
import { disabledReasons } from '../../src/kinds/shared/disabled-controller.ts';
import { type ControllerName, controllerNames } from '../../src/kinds.ts';
import { controllers } from '../../src/operator.ts';
import { pageOf } from './file-names.ts';
import { replaceTable } from './tables.ts';

/** A row of a table. A reason that is never reported has no Event. */
type Row = Omit<Reason, 'event'> & { readonly event: Reason['event'] | 'none'; readonly statusRemark?: string };
type Rows = Readonly<Record<string, Row>>;

/** The reasons of conditions, by type. A reason that is in no list is a reason of `Ready`. */
type Conditions = Readonly<Record<string, Rows>>;

/** The status of VolumeResizing under a reason is not that of `Ready`. */
const volumeStatuses: Readonly<Record<string, { readonly resizing: Row['ready'] }>> = volumeReasons;

/** These reasons are more urgent than the growth of another volume, which the status still reports. */
const moreUrgentThanGrowth: readonly string[] = [
  'VolumeLost',
  'StorageClassCannotGrow',
  'ResizeRefused',
] satisfies readonly (keyof typeof volumeReasons)[];

const { bookStore, podSet, pet } = controllers;

const bookStoreRows: Rows = Object.fromEntries(
  Object.entries(bookStore.reasons).map(([reason, row]) => [
    reason,
    {
      ...row,
      ready: volumeStatuses[reason]?.resizing ?? row.ready,
      ...(moreUrgentThanGrowth.includes(reason) && { statusRemark: ', or True while a volume grows' }),
    },
  ]),
);

// The controller chooses another name for a pod whose name is taken.
const { NameTaken: _, Replacing: __, ...podSetRows } = podSet.reasons;

/** The tables that differ from the reasons of the controller. */
const special: Partial<Readonly<Record<ControllerName, readonly [reasons: Rows, conditions?: Conditions]>>> = {
  podSet: [podSetRows],
  bookStore: [bookStoreRows, bookStoreConditions],
  // Adding is written before the call of the store and has no Event.
  pet: [{ ...pet.reasons, ...(pet.reasons.Adding && { Adding: { ...pet.reasons.Adding, event: 'none' } }) }],
};

/** The pages with a generated table of reasons. */
const pages: readonly (readonly [page: string, reasons: Rows, conditions?: Conditions])[] = controllerNames.map(
  (name) => [pageOf(name), ...(special[name] ?? [controllers[name].reasons])] as const,
);

/** The paths of these pages. */
export const reasonPages: readonly string[] = pages.map(([page]) => page);

/**
 * Returns the content of each page, with its table generated from the reasons in the code.
 *
 * @throws Error if a page lacks the two comments around the table
 */
export async function reasonTables(root: string): Promise<readonly [path: string, content: string][]> {
  return Promise.all(
    pages.map(async ([page, reasons, conditions]): Promise<[string, string]> => {
      const text = await readFile(join(root, page), 'utf8').catch((cause: unknown) => {
        throw new Error(`${page} cannot be read: each kind has a page (CONTRIBUTING.md, "Add a kind")`, { cause });
      });
      // A kind may give a common reason a meaning of its own. Its rows come first.
      const rows = { ...reasons, ...commonReasons, ...reasons, ...disabledReasons };
      return [page, replaceTable(page, text, 'reasons', tableOf(rows, conditions))];
    }),
  );
}

/**
 * @param conditions if there are any, a column names the conditions with the reason, and the status is that of these
 *   conditions.
 */
function tableOf(reasons: Rows, conditions?: Conditions): string {
  const columns = [...(conditions ? ['reason', 'condition'] : ['reason of Ready']), 'status', 'Event', 'meaning'];
  const rows = Object.entries(reasons).map(([reason, row]) => [
    `\`${reason}\``,
    ...(conditions ? [conditionsOf(reason, conditions)] : []),
    `${row.ready}${row.statusRemark ?? ''}`,
    row.recordsMessageChanges ? `${row.event}, also for a new message` : row.event,
    row.meaning,
  ]);
  return [columns, columns.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |\n`).join('');
}

const conditionsOf = (reason: string, conditions: Conditions): string =>
  Object.entries(conditions)
    .filter(([, reasons]) => Object.hasOwn(reasons, reason))
    .map(([type]) => type)
    .join(', ') || 'Ready';
