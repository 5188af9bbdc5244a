import { type Kind, requireKeyInScope, resourceName } from '../kind/kind.ts';
import type { ObjectKey } from '../kind/object.ts';

/** Returns the URL path of a group and version. The core group is the empty string. */
function groupVersionPath(group: string, version: string): string {
  return group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
}

/** Returns the URL path of a kind's objects in one namespace, or in all namespaces. */
export function collectionPath(kind: Kind, namespace?: string): string {
  const root = groupVersionPath(kind.group, kind.version);
  return namespace === undefined
    ? `${root}/${kind.plural}`
    : `${root}/namespaces/${encodeURIComponent(namespace)}/${kind.plural}`;
}

/**
 * Returns the URL path for the POST that creates an object with this key.
 *
 * @throws TypeError if the key does not fit the kind's scope, or if its name or namespace is not a valid path segment.
 */
export function creationPath(kind: Kind, key: ObjectKey): string {
  const { name, namespace } = key;
  if (!isPathSegment(name)) throw new TypeError(`${resourceName(kind)}: the name "${name}" is invalid`);
  requireKeyInScope(kind, key);
  if (namespace !== undefined && !isPathSegment(namespace)) {
    throw new TypeError(`${resourceName(kind)} ${name}: the namespace "${namespace}" is invalid`);
  }
  return collectionPath(kind, namespace);
}

/**
 * Returns the URL path of an object or of one of its subresources.
 *
 * @throws TypeError like {@link creationPath}: an invalid key would address another object or a collection.
 */
export function objectPath(kind: Kind, key: ObjectKey, subresource?: string): string {
  const path = `${creationPath(kind, key)}/${encodeURIComponent(key.name)}`;
  return subresource === undefined ? path : `${path}/${subresource}`;
}

/** A proxy that normalizes paths would resolve `.` and `..`, even if they are percent-encoded. */
const isPathSegment = (text: string): boolean => text !== '' && text !== '.' && text !== '..';
