import type { KubeObject } from '../kind/object.ts';

/** How many paths are named. `…` stands for further paths. */
const maxPaths = 4;
/** A path ends at this depth, at a list, and at a value. */
const maxDepth = 5;

/** Names of fields, labels, annotations and files. Any other key may be a user's value. */
const fieldName = /^[\w-]{1,63}$/;
const keyName = /^[\w./-]{1,253}$/;

/** The server changes these members of the metadata with every write, or with every write of the spec. */
const consequences = new Set(['resourceVersion', 'generation', 'managedFields']);

type Members = Readonly<Record<string, unknown>>;

/**
 * The paths of the fields in which two versions of an object differ, without their values: `spec.replicas`,
 * `metadata.annotations[example.com/note]`. Equal parts must be the same object, as in an informer's store. A list that
 * is another object counts as changed.
 */
export function changedPaths(object: object, previous: object): readonly string[] {
  const paths: string[] = [];
  compare(object as Members, previous as Members, '', 1, paths);
  return paths;
}

/**
 * Whether two versions of an object differ at most in their status. As in {@link changedPaths}, equal parts must be the
 * same object.
 */
export const differOnlyInStatus = (object: KubeObject, previous: KubeObject): boolean =>
  areEqualExcept(comparedElsewhere, object, previous) &&
  areEqualExcept(consequences, object.metadata, previous.metadata);

const comparedElsewhere = new Set(['metadata', 'status']);

function areEqualExcept(names: ReadonlySet<string>, value: object, previous: object): boolean {
  const [members, before] = [value as Members, previous as Members];
  for (const name in members) if (members[name] !== before[name] && !names.has(name)) return false;
  for (const name in before) if (!(name in members) && !names.has(name)) return false;
  return true;
}

/** The paths that a merge patch or a JSON patch sets, without their values. */
export function patchedPaths(patch: object): readonly string[] {
  const paths: string[] = [];
  if (Array.isArray(patch)) {
    for (const { op, path } of patch) {
      const isPrecondition = op === 'test' || path === '/metadata/resourceVersion';
      if (isPrecondition) continue;
      const [, ...segments] = String(path).split('/');
      add(
        paths,
        segments.reduce((parent, segment) => memberPath(parent, unescaped(segment)), ''),
      );
    }
  } else compare(patch as Members, {}, '', 1, paths);
  return paths;
}

const unescaped = (segment: string): string => segment.replaceAll('~1', '/').replaceAll('~0', '~');

function compare(value: Members, previous: Members, path: string, depth: number, paths: string[]): void {
  for (const name in value) {
    const member = value[name];
    const before = previous[name];
    if (member === before || (path === 'metadata' && consequences.has(name))) continue;
    const memberAt = memberPath(path, name);
    // An empty map has no members to name, so name the map itself.
    const hasMembers = isMembers(member) && (isMembers(before) || !isEmpty(member));
    if (hasMembers && depth < maxDepth) compare(member, isMembers(before) ? before : {}, memberAt, depth + 1, paths);
    else add(paths, memberAt);
    if (paths.length > maxPaths) return;
  }
  for (const name in previous) {
    if (!(name in value) && !(path === 'metadata' && consequences.has(name))) add(paths, memberPath(path, name));
  }
}

/** Avoids the list that `Object.keys` would create. */
export function isEmpty(members: object): boolean {
  for (const _ in members) return false;
  return true;
}

const isMembers = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function add(paths: string[], path: string): void {
  if (paths.length > maxPaths) return;
  paths.push(paths.length < maxPaths ? path : '…');
}

function memberPath(path: string, name: string): string {
  if (fieldName.test(name)) return path === '' ? name : `${path}.${name}`;
  return `${path}[${keyName.test(name) ? name : '…'}]`;
}

/** Splits a path into names. */
export const segmentsOf = (path: string): readonly string[] =>
  path.includes('[')
    ? [...path.matchAll(/\[([^\]]+)\]|[^.[\]]+/g)].map(([field, key]) => key ?? field)
    : path.split('.');
