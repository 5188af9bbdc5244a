import type { Reasons } from '@echoperator/runtime/controller';
import { cellText, markdownTable } from './markdown-table.ts';

/** A row of a table of reasons. */
export interface ReasonRow {
  readonly reason: string;
  /** The types of the conditions with this reason. Default: `Ready`. */
  readonly conditions?: readonly string[];
  /** The status of the condition under this reason. */
  readonly status: string;
  /** The Event for the reason, in words. */
  readonly event: string;
  readonly meaning: string;
}

/** Returns the row of each reason of a controller. */
export const reasonRows = (reasons: Reasons): readonly ReasonRow[] =>
  Object.entries(reasons).map(([reason, { ready, event, recordsMessageChanges, meaning }]) => ({
    reason,
    status: ready,
    event: recordsMessageChanges ? `${event}, also for a new message` : event,
    meaning,
  }));

/** Returns the table of reasons. If a row names conditions, a column shows those of every row. */
export function reasonsTable(rows: readonly ReasonRow[]): string {
  const hasConditions = rows.some(({ conditions }) => conditions !== undefined);
  const columns = [...(hasConditions ? ['reason', 'condition'] : ['reason of Ready']), 'status', 'Event', 'meaning'];
  return markdownTable(
    columns,
    rows.map(({ reason, conditions = ['Ready'], status, event, meaning }) => [
      `\`${reason}\``,
      ...(hasConditions ? [conditions.join(', ')] : []),
      status,
      event,
      cellText(meaning),
    ]),
  );
}
