import { readFile } from 'node:fs/promises';

/**
 * Returns the kernel's state of a process: `R`, `S`, `D`, stopped `T`, ended `Z`. Undefined if there is no such
 * process.
 */
export async function processState(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  // The state follows the program's name, which may contain parentheses.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[0];
}

/** Whether a process has ended, even if its parent has not noticed. */
export const hasEnded = async (pid: number): Promise<boolean> =>
  [undefined, 'Z', 'X'].includes(await processState(pid));

/** Sends a signal to each process that still exists. */
export function signalAll(pids: readonly number[], signal: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}
