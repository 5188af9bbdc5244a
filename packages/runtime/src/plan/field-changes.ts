import { isDeepStrictEqual } from 'node:util';
import { isObject } from '../apply/json.ts';
import type { FieldChange } from './plan.ts';

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

/** Keys that need no brackets in a path. */
const plainName = /^[\w-]+$/;

/**
 * The fields in which two versions of an object differ. A change of nothing but field owners has the one path
 * `metadata.managedFields`.
 *
 * @param options.hasValues false: only paths, for example of a Secret.
 */
export function fieldChanges(
  before: object,
  after: object,
  { hasValues }: { readonly hasValues: boolean },
): readonly FieldChange[] {
  const changes: FieldChange[] = [];
  compare(before, after, '', changes);
  if (changes.length === 0 && !isDeepStrictEqual(ownersOf(before), ownersOf(after)))
    changes.push({ path: 'metadata.managedFields' });
  return hasValues ? changes : changes.map(({ path }) => ({ path }));
}

function compare(before: unknown, after: unknown, path: string, changes: FieldChange[]): void {
  if (ignoredPaths.has(path) || isDeepStrictEqual(before, after)) return;
  const [old, current] = [membersOf(before), membersOf(after)];
  if (old === undefined || current === undefined) {
    changes.push({
      path,
      ...(before !== undefined && { before }),
      ...(after !== undefined && { after }),
    });
    return;
  }
  for (const name of new Set([...old.keys(), ...current.keys()]))
    compare(old.get(name), current.get(name), memberPath(path, name, Array.isArray(after)), changes);
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

function memberPath(path: string, name: string, isItem: boolean): string {
  if (isItem || !plainName.test(name)) return `${path}[${name}]`;
  return path === '' ? name : `${path}.${name}`;
}

/** The field owners without the times of their writes. */
function ownersOf(object: object): unknown {
  const { metadata }: { readonly metadata?: { readonly managedFields?: readonly object[] } } = object;
  return metadata?.managedFields?.map((owner) => ({ ...owner, time: undefined }));
}
