import { type Kind, type ObjectKey, resourceName } from '../kind/index.ts';

/** The URL path under which a group's version stands; the core group is the empty one. */
export function groupVersionPath(group: string, version: string): string {
  return group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
}

/** The URL path of a kind's objects, in one namespace or in all. */
export function collectionPath(kind: Kind, namespace?: string): string {
  const root = groupVersionPath(kind.group, kind.version);
  return namespace === undefined
    ? `${root}/${kind.plural}`
    : `${root}/namespaces/${encodeURIComponent(namespace)}/${kind.plural}`;
}

/**
 * The URL path to which an object with this key is posted.
 *
 * @throws TypeError when the key does not fit the kind's scope, or a part of it can be no segment of a path.
 */
export function creationPath(kind: Kind, { name, namespace }: ObjectKey): string {
  if (!isSegment(name)) throw new TypeError(`${resourceName(kind)}: no object has the name "${name}"`);
  if ((kind.scope === 'Namespaced') !== (namespace !== undefined && namespace !== '')) {
    throw new TypeError(`${resourceName(kind)} ${name} is ${kind.scope}: namespace is "${namespace ?? ''}"`);
  }
  if (namespace !== undefined && !isSegment(namespace)) {
    throw new TypeError(`${resourceName(kind)} ${name}: there is no namespace "${namespace}"`);
  }
  return collectionPath(kind, namespace);
}

/**
 * The URL path of one object, or of one of its subresources.
 *
 * @throws TypeError as {@link creationPath} does: the path would name another object, or a collection.
 */
export function objectPath(kind: Kind, key: ObjectKey, subresource?: string): string {
  const path = `${creationPath(kind, key)}/${encodeURIComponent(key.name)}`;
  return subresource === undefined ? path : `${path}/${subresource}`;
}

/** Dots mean this folder and the one above to whoever cleans a path on its way, encoded or not. */
const isSegment = (text: string): boolean => text !== '' && text !== '.' && text !== '..';
