import { isObject } from '../apply/json.ts';
import { isNested } from '../client/parse-body.ts';
import type { FieldChange } from './plan.ts';
import { excerpt } from './shown-fields.ts';

/**
 * The server sets these members of the metadata itself. Field owners are compared separately. Items of lists lack the
 * type.
 */
const ignoredPaths = new Set([
  'apiVersion',
  'kind',
  'metadata.managedFields',
  'metadata.resourceVersion',
  'metadata.generation',
]);

/**
 * A longer key is cut in a path, so that the paths of its members do not repeat it. Keys of labels have 317 characters.
 */
const maxNameLength = 320;

/** Keys that need no brackets in a path. */
const plainName = /^[\w-]+$/;

/** A value that is nested deeper is one field: the API server accepts objects that exhaust the stack. */
const maxDepth = 64;
const tooDeep = '… (nested too deeply to show)';

/**
 * The fields in which two versions of an object differ. A change of nothing but field owners has the one path
 * `metadata.managedFields`. If only the order of a list's named items changes, the values are the names.
 *
 * @param options.hasValues false: only paths, for example of a Secret.
 */
export function fieldChanges(
  before: object,
  after: object,
  { hasValues }: { readonly hasValues: boolean },
): readonly FieldChange[] {
  const changes: FieldChange[] = [];
  compare({ before, after, path: '', depth: 0 }, changes);
  if (changes.length === 0 && !isSame(ownersOf(before), ownersOf(after)))
    changes.push({ path: 'metadata.managedFields' });
  return hasValues ? changes : changes.map(({ path }) => ({ path }));
}

interface Compared {
  readonly before: unknown;
  readonly after: unknown;
  readonly path: string;
  readonly depth: number;
}

function compare({ before, after, path, depth }: Compared, changes: FieldChange[]): void {
  if (ignoredPaths.has(path) || before === after) return;
  const isComparable = Array.isArray(before) === Array.isArray(after);
  const [old, current] = isComparable ? [membersOf(before), membersOf(after)] : [];
  if (old === undefined || current === undefined || depth === maxDepth) {
    if (depth === maxDepth && isSame(before, after)) return;
    changes.push({
      path,
      ...(before !== undefined && { before: shortened(before, depth) }),
      ...(after !== undefined && { after: shortened(after, depth) }),
    });
    return;
  }
  for (const name of new Set([...old.keys(), ...current.keys()])) {
    const member = memberPath(path, name, Array.isArray(after));
    compare({ before: old.get(name), after: current.get(name), path: member, depth: depth + 1 }, changes);
  }
  if (!Array.isArray(after)) return;
  const [oldNames, names] = [[...old.keys()].filter((name) => current.has(name)), [...current.keys()]];
  if (
    !isSame(
      oldNames,
      names.filter((name) => old.has(name)),
    )
  )
    changes.push({ path, before: [...old.keys()], after: names });
}

/** Whether two JSON values are equal. Without recursion: see {@link maxDepth}. */
function isSame(one: unknown, other: unknown): boolean {
  const pairs: [unknown, unknown][] = [[one, other]];
  for (let pair = pairs.pop(); pair !== undefined; pair = pairs.pop()) {
    const [left, right] = pair;
    if (left === right) continue;
    if (!isNested(left) || !isNested(right) || Array.isArray(left) !== Array.isArray(right)) return false;
    const [leftMembers, rightMembers] = [new Map(Object.entries(left)), new Map(Object.entries(right))];
    if (leftMembers.size !== rightMembers.size) return false;
    for (const [name, value] of leftMembers) {
      if (!rightMembers.has(name)) return false;
      pairs.push([value, rightMembers.get(name)]);
    }
  }
  return true;
}

/** A copy without what is nested too deeply. */
function shortened(value: unknown, depth: number): unknown {
  if (!isNested(value)) return value;
  if (depth >= maxDepth) return tooDeep;
  if (Array.isArray(value)) return value.map((item: unknown) => shortened(item, depth + 1));
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, shortened(member, depth + 1)]));
}

/** The members of an object, or of a list: by name if each item has one, otherwise by index. Undefined for a scalar. */
function membersOf(value: unknown): ReadonlyMap<string, unknown> | undefined {
  if (!Array.isArray(value)) return isObject(value) ? new Map(Object.entries(value)) : undefined;
  const names = value.map((item: unknown) => nameOf(item));
  const areNames = new Set(names).size === names.length && !names.includes(undefined);
  return new Map(value.map((item, index) => [(areNames ? names[index] : undefined) ?? String(index), item]));
}

function nameOf(item: unknown): string | undefined {
  if (!isObject(item)) return undefined;
  // Conditions have a type, containers and volumes a name.
  const { name, type }: { readonly name?: unknown; readonly type?: unknown } = item;
  return [name, type].find((each) => typeof each === 'string') as string | undefined;
}

function memberPath(path: string, key: string, isItem: boolean): string {
  const name = excerpt(key, maxNameLength);
  if (isItem || !plainName.test(name)) return `${path}[${name}]`;
  return path === '' ? name : `${path}.${name}`;
}

/** The field owners without the times of their writes. */
function ownersOf(object: object): unknown {
  const { metadata }: { readonly metadata?: { readonly managedFields?: readonly object[] } } = object;
  return metadata?.managedFields?.map((owner) => ({ ...owner, time: undefined }));
}
