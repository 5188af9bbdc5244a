import { isObject } from './status-patch.ts';

/**
 * A condition of an object, as defined by the API conventions
 * (https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md#typical-status-properties).
 */
export interface Condition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  /** One CamelCase word, for programs. */
  readonly reason: string;
  /** An explanation, for people. */
  readonly message: string;
  /** The time of the last change of `status` (not of `reason` or `message`), in RFC 3339. */
  readonly lastTransitionTime: string;
  readonly observedGeneration?: number;
}

/** A condition as a reconciler states it; {@link setCondition} adds the time. */
export type DesiredCondition = Omit<Condition, 'lastTransitionTime'>;

/** Returns the condition of this type, undefined if there is none. */
export function findCondition(conditions: readonly Condition[] | undefined, type: string): Condition | undefined {
  return conditionsIn(conditions).find((condition) => condition.type === type);
}

/**
 * The conditions of a stored status. An object stored under another CustomResourceDefinition may have any value in
 * their place.
 */
export const conditionsIn = (stored: unknown): readonly Condition[] =>
  Array.isArray(stored) ? stored.filter((each): each is Condition => isObject(each)) : [];

/** The API's limit, in characters. */
export const maxMessageLength = 32_768;

/** The API's limits, in characters. */
export const maxTypeLength = 316;
export const maxReasonLength = 1024;

/** The maximum number of conditions of an object. */
export const maxConditions = 100;

/** An RFC 3339 time. The format allows any number of decimals. */
export const maxTimeLength = 64;

/**
 * Returns a copy of the conditions with one condition set. Conditions of other types keep their content and their
 * position. `lastTransitionTime` changes only with `status`, so setting an equal condition returns an equal list. A
 * message longer than the API's limit is truncated.
 *
 * Some conditions are dropped, because they were stored under an older CustomResourceDefinition and the API server
 * would refuse the list. These are conditions that exceed a bound, conditions beyond {@link maxConditions}, and
 * conditions whose generation JSON.parse rounds.
 */
export function setCondition(
  conditions: readonly Condition[] | undefined,
  desired: DesiredCondition,
  now: Date,
): readonly Condition[] {
  const stored = findCondition(conditions, desired.type);
  const current = stored !== undefined && isAtMost(maxTimeLength, stored.lastTransitionTime) ? stored : undefined;
  const lastTransitionTime =
    current?.status === desired.status ? current.lastTransitionTime : now.toISOString().replace(/\.\d+Z$/, 'Z');
  const next: Condition = { ...desired, message: truncate(desired.message), lastTransitionTime };
  const all = conditionsIn(conditions);
  if (current === undefined) return [...withRoom(all), next];
  const others = new Set(withRoom(all.filter((condition) => condition !== current)));
  return all.flatMap((condition) => (condition === current ? [next] : others.has(condition) ? [condition] : []));
}

/** The first conditions within the bounds, with room for one more. */
const withRoom = (others: readonly Condition[]): readonly Condition[] =>
  others.filter(isWithinBounds).slice(0, maxConditions - 1);

const isWithinBounds = ({ type, reason, message, lastTransitionTime, observedGeneration = 0 }: Condition): boolean =>
  Number.isSafeInteger(observedGeneration) &&
  isAtMost(maxTypeLength, type) &&
  isAtMost(maxReasonLength, reason) &&
  isAtMost(maxMessageLength, message) &&
  isAtMost(maxTimeLength, lastTransitionTime);

/** A stored condition may lack a member. */
const isAtMost = (maxLength: number, text: string | undefined): boolean => (text?.length ?? 0) <= maxLength;

/**
 * Truncates a message, but not in the middle of a surrogate pair, because the API server would store another character
 * for it.
 */
function truncate(message: string): string {
  return message.length <= maxMessageLength
    ? message
    : message.slice(0, maxMessageLength).replace(/[\uD800-\uDBFF]$/, '');
}
