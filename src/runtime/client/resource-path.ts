import { type Kind, type ObjectKey, resourceName } from '../kind/index.ts';

/** The URL path of a kind's objects, in one namespace or in all. */
export function collectionPath(kind: Kind, namespace?: string): string {
  const root = kind.group === '' ? `/api/${kind.version}` : `/apis/${kind.group}/${kind.version}`;
  return namespace === undefined
    ? `${root}/${kind.plural}`
    : `${root}/namespaces/${encodeURIComponent(namespace)}/${kind.plural}`;
}

/**
 * The URL path of one object.
 *
 * @throws TypeError when the key does not fit the kind's scope or has no name: the path would name a collection.
 */
export function objectPath(kind: Kind, key: ObjectKey): string {
  if (key.name === '') throw new TypeError(`${resourceName(kind)}: the name is empty`);
  if ((kind.scope === 'Namespaced') !== (key.namespace !== undefined && key.namespace !== '')) {
    throw new TypeError(`${resourceName(kind)} ${key.name} is ${kind.scope}: namespace is "${key.namespace ?? ''}"`);
  }
  return `${collectionPath(kind, key.namespace)}/${encodeURIComponent(key.name)}`;
}
