import { randomBytes } from 'node:crypto';
import type { PodSet } from '../../api/index.ts';
import { childName } from '../child-name.ts';

/** What a name can hold, less `-pod-` and the suffix. */
const maxNameLength = 253 - 10;

/**
 * The names of so many new pods. They are chosen here and not by the API server, so that a look at one settles what a
 * lost answer leaves open.
 *
 * @param tried those to use before all others; see `Memory`.
 */
export function podNames(
  { metadata }: PodSet,
  count: number,
  tried: readonly string[],
  isTaken: (name: string) => boolean,
): readonly string[] {
  const names = new Set(tried.filter((name) => !isTaken(name)).slice(0, count));
  const prefix = childName(metadata.name, maxNameLength);
  while (names.size < count) {
    const name = `${prefix}-pod-${randomBytes(3).toString('hex').slice(0, 5)}`;
    if (!isTaken(name)) names.add(name);
  }
  return [...names];
}
