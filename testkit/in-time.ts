/** A busy machine may give a process a tenth of its usual time. */
const limitMs = 90_000;

/**
 * Waits for a promise that may never settle.
 *
 * @param what the awaited state, for the error message
 * @throws Error that names the awaited state, after 90 s. This is well before the time limit of a test, whose error
 *   would not name the state
 */
export async function inTime<T>(what: string, promise: Promise<T>, timeoutMs = limitMs): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`not within ${timeoutMs} ms: ${what}`)), timeoutMs);
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** The result of a process that has ended. */
interface RunningProcess extends Promise<{ readonly all?: string | undefined }> {
  kill(signal: 'SIGKILL'): unknown;
}

/** Waits until a process exits. @throws Error with its output if it does not exit in time; it is killed then */
export async function exitInTime<P extends RunningProcess>(
  name: string,
  child: P,
  timeoutMs?: number,
): Promise<Awaited<P>> {
  try {
    return (await inTime(`the exit of ${name}`, child, timeoutMs)) as Awaited<P>;
  } catch (cause) {
    child.kill('SIGKILL');
    throw new Error(`${name} did not exit; its output: ${(await child).all}`, { cause });
  }
}
