/**
 * One aspect of an object's state, as the API conventions have it
 * (https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md#typical-status-properties).
 */
export interface Condition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  /** One CamelCase word that a program can act on. */
  readonly reason: string;
  /** What a person can act on. */
  readonly message: string;
  /** RFC 3339. When `status` last changed, not `reason` or `message`. */
  readonly lastTransitionTime: string;
  readonly observedGeneration?: number;
}

/** A condition as a reconciler states it; {@link setCondition} knows when it changed. */
export type DesiredCondition = Omit<Condition, 'lastTransitionTime'>;

/** The condition of a type, if there is one. */
export function findCondition(conditions: readonly Condition[] | undefined, type: string): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

/** What the API takes, in characters. */
const maxMessageLength = 32_768;

/**
 * The conditions with one set. Conditions of other types, whoever wrote them, stay as they are and where they are;
 * `lastTransitionTime` moves only with `status`, so that setting what is already there returns an equal list. A message
 * that the API would not take for its length is cut.
 */
export function setCondition(
  conditions: readonly Condition[] | undefined,
  desired: DesiredCondition,
  now: Date,
): readonly Condition[] {
  const current = findCondition(conditions, desired.type);
  const lastTransitionTime =
    current?.status === desired.status ? current.lastTransitionTime : now.toISOString().replace(/\.\d+Z$/, 'Z');
  const next: Condition = { ...desired, message: beginning(desired.message), lastTransitionTime };
  if (conditions === undefined || current === undefined) return [...(conditions ?? []), next];
  return conditions.map((condition) => (condition === current ? next : condition));
}

/** No half of a surrogate pair at its end: the API server would store another character for it. */
function beginning(message: string): string {
  return message.length <= maxMessageLength
    ? message
    : message.slice(0, maxMessageLength).replace(/[\uD800-\uDBFF]$/, '');
}
