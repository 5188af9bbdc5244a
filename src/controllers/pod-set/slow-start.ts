/** How a {@link slowStart} went. */
export interface SlowStart {
  readonly succeeded: number;
  /** The first error, after whose batch nothing more was tried. */
  readonly error?: unknown;
}

/**
 * Does something so many times, in batches of 1, 2, 4 and so on, and stops after the first batch in which one failed: a
 * quota that is full refuses one pod and not five hundred (slowStartBatch in k8s.io/kubernetes/pkg/controller/replicaset).
 */
export async function slowStart(count: number, act: () => Promise<unknown>): Promise<SlowStart> {
  let succeeded = 0;
  for (let batch = 1, left = count; left > 0; left -= Math.min(batch, left), batch *= 2) {
    const outcomes = await Promise.allSettled(Array.from({ length: Math.min(batch, left) }, () => act()));
    const failed = outcomes.filter((outcome) => outcome.status === 'rejected');
    succeeded += outcomes.length - failed.length;
    const [first] = failed;
    if (first !== undefined) return { succeeded, error: first.reason };
  }
  return { succeeded };
}
