/** A perturbed run deviated from the undisturbed ones, or an undisturbed run failed. */
export class PerturbationError extends Error {
  override readonly name = 'PerturbationError';
}

/** Waits until all have ended, so that nothing runs on after a failure. @throws the first error */
export async function allEnded<T>(promises: readonly Promise<T>[]): Promise<readonly T[]> {
  await Promise.allSettled(promises);
  return Promise.all(promises);
}

export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${messageOf(error.cause)}`;
}
