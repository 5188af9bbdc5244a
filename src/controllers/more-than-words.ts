import { isDeepStrictEqual } from 'node:util';
import type { Condition, Delta, KubeObject } from '../runtime/index.ts';

type WithStatus = KubeObject & {
  readonly status?: { readonly conditions?: readonly Condition[] };
};

/**
 * Whether a change of an object can matter to its reconcile: anything but new words in a condition. Those are most often
 * our own, and a refusal that is worded anew each time (a policy may quote the time) would be tried again at once, for
 * ever, past every pause.
 */
export function isMoreThanWords<T extends WithStatus>(delta: Delta<T>): boolean {
  return delta.type !== 'modified' || !isDeepStrictEqual(withoutWords(delta.previous), withoutWords(delta.object));
}

function withoutWords({ metadata, status }: WithStatus): object {
  const { generation, deletionTimestamp, labels, annotations } = metadata;
  const conditions = status?.conditions?.map(({ message: _, ...condition }) => condition);
  return { generation, deletionTimestamp, labels, annotations, status: { ...status, conditions } };
}
