import type { ObjectKey } from '../kind/index.ts';

/** The inverse of `keyString`: neither a name nor a namespace holds a slash. */
export function parseKey(key: string): ObjectKey {
  const slash = key.indexOf('/');
  return slash === -1 ? { name: key } : { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}
