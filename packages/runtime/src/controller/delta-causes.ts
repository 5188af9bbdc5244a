import type { DeltaOrigin, FieldOwner } from '../cache/informer.ts';
import type { Delta } from '../cache/store.ts';
import type { KubeObject } from '../kind/object.ts';
import type { DeltaCause } from '../queue/cause.ts';
import { changedPaths, isEmpty, segmentsOf } from '../shared/field-paths.ts';
import { isReadableDelta } from './predicate.ts';

/** How many causes of a kind are kept for reuse. */
const maxCauses = 64;

/** Returns the owners of the fields of an object that a watch or a response has just delivered. */
export type FieldOwnersOf = (object: KubeObject) => readonly FieldOwner[];

/** The causes of the deltas of one kind. Equal causes are one object, which thousands of keys share. */
export class DeltaCauses {
  readonly #kind: string;
  readonly #fieldOwnersOf: FieldOwnersOf;
  readonly #wholes: Record<'added' | 'deleted', Partial<Record<DeltaOrigin, DeltaCause>>> = { added: {}, deleted: {} };
  readonly #known = new Map<string, DeltaCause>();

  constructor(kind: string, fieldOwnersOf: FieldOwnersOf) {
    this.#kind = kind;
    this.#fieldOwnersOf = fieldOwnersOf;
  }

  of(delta: Delta<KubeObject>, origin: DeltaOrigin): DeltaCause {
    if (delta.type !== 'modified') return this.#whole(delta.type, origin);
    const paths = isReadableDelta(delta) ? changedPaths(delta.object, delta.previous) : [];
    const by = isDeletion(delta) ? undefined : writersOf(this.#fieldOwnersOf(delta.object), paths);
    return this.#cause({ change: 'modified', origin, paths, by });
  }

  /**
   * Returns a cause without paths and manager, which cost time: an object is created more often than its spec is
   * changed.
   */
  #whole(change: 'added' | 'deleted', origin: DeltaOrigin): DeltaCause {
    const byOrigin = this.#wholes[change];
    byOrigin[origin] ??= { type: 'delta', kind: this.#kind, change, origin, paths: [], by: undefined };
    return byOrigin[origin];
  }

  #cause(parts: Omit<DeltaCause, 'type' | 'kind'>): DeltaCause {
    const id = `${parts.change} ${parts.origin} ${parts.by} ${parts.paths.join()}`;
    const known = this.#known.get(id);
    if (known !== undefined) return known;
    const cause: DeltaCause = { type: 'delta', kind: this.#kind, ...parts };
    if (this.#known.size === maxCauses) this.#known.clear();
    this.#known.set(id, cause);
    return cause;
  }
}

/** On a deletion the API server changes the metadata itself, and no managedFields name the client that requested it. */
const isDeletion = ({ object, previous }: { readonly object: KubeObject; readonly previous: KubeObject }): boolean =>
  object.metadata.deletionTimestamp !== undefined && previous.metadata.deletionTimestamp === undefined;

/**
 * The field managers that changed these fields: among the managers that own one of them, those with the latest time.
 * Times are whole seconds, so there may be several. For a list it is the manager that last wrote one of its items.
 * Undefined if no manager owns one: a manager that removes a field owns no part of it
 * (https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management).
 */
function writersOf(owners: readonly FieldOwner[], paths: readonly string[]): string | undefined {
  let last = '';
  let managers: readonly string[] = [];
  // Iterate backwards: the API server sorts the entries of updates by time, and the newest is usually the result.
  for (const { manager, time = '', fieldsV1 } of owners.toReversed()) {
    if (manager === undefined || time < last || !paths.some((path) => owns(fieldsV1, path))) continue;
    managers = time > last ? [manager] : [...new Set([manager, ...managers])];
    last = time;
  }
  return managers.length === 0 ? undefined : managers.join(' or ');
}

/** Whether `fields`, the fields of a manager, contain the field at `path` or a part of it. */
function owns(fields: unknown, path: string): boolean {
  let owned = fields;
  for (const name of segmentsOf(path)) {
    if (typeof owned !== 'object' || owned === null) return false;
    const members = owned as Readonly<Record<string, unknown>>;
    owned = members[`f:${name}`];
    // An atomic list or map has no members here, because it is owned as a whole.
    if (owned === undefined) return isEmpty(members);
  }
  return owned !== undefined;
}
