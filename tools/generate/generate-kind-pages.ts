import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { kindPage, kindParts, type ReasonRow, reasonRows } from '@echoperator/cli';
import type { Reasons } from '@echoperator/runtime/controller';
import { bookStoreConditions, volumeReasons } from '../../src/kinds/book-store/reasons.ts';
import { disabledReasons } from '../../src/kinds/shared/disabled-controller.ts';
import { type ControllerName, controllerNames } from '../../src/kinds.ts';
import { controllers } from '../../src/operator.ts';
import { pageOf } from './file-names.ts';

/** The status of VolumeResizing under a reason is not that of `Ready`. */
const volumeStatuses: Readonly<Record<string, { readonly resizing: string }>> = volumeReasons;

/** These reasons are more urgent than the growth of another volume, which the status still reports. */
const moreUrgentThanGrowth: readonly string[] = [
  'VolumeLost',
  'StorageClassCannotGrow',
  'ResizeRefused',
] satisfies readonly (keyof typeof volumeReasons)[];

/** The conditions of a BookStore with a reason. A reason that is in no list is a reason of `Ready`. */
function conditionsOf(reason: string): readonly string[] {
  const found = Object.entries<Reasons>(bookStoreConditions).filter(([, reasons]) => Object.hasOwn(reasons, reason));
  return found.length === 0 ? ['Ready'] : found.map(([type]) => type);
}

function bookStoreRow(row: ReasonRow): ReasonRow {
  const status = volumeStatuses[row.reason]?.resizing ?? row.status;
  const remark = moreUrgentThanGrowth.includes(row.reason) ? ', or True while a volume grows' : '';
  return { ...row, conditions: conditionsOf(row.reason), status: `${status}${remark}` };
}

type ChangeRow = (row: ReasonRow) => readonly ReasonRow[];

/** What differs from the reasons of the controller. */
const special: Partial<Readonly<Record<ControllerName, ChangeRow>>> = {
  // The controller chooses another name for a pod whose name is taken.
  podSet: (row) => (['NameTaken', 'Replacing'].includes(row.reason) ? [] : [row]),
  bookStore: (row) => [bookStoreRow(row)],
  // Adding is written before the call of the store and has no Event.
  pet: (row) => [row.reason === 'Adding' ? { ...row, event: 'none' } : row],
};

/** The pages of the kinds. */
export const kindPages: readonly string[] = controllerNames.map(pageOf);

/**
 * Returns the page of each kind, with its generated parts.
 *
 * @throws Error if a page does not exist, or lacks the comments around a part.
 */
export const kindPageFiles = (root: string): Promise<readonly (readonly [path: string, content: string])[]> =>
  Promise.all(
    controllerNames.map(async (name) => {
      const { kind, reasons, permissions } = controllers[name];
      const path = pageOf(name);
      const page = await readFile(join(root, path), 'utf8').catch((cause: unknown) => {
        throw new Error(`${path} cannot be read: each kind has a page (CONTRIBUTING.md, "Add a kind")`, { cause });
      });
      const rows = reasonRows({ ...reasons, ...disabledReasons }).flatMap(special[name] ?? ((row) => [row]));
      const parts = kindParts({ kind, reasons: rows, permissions });
      return [path, kindPage(path, page, kind, { parts, command: 'make generate' })] as const;
    }),
  );
