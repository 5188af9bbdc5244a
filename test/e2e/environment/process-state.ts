import { readFile } from 'node:fs/promises';

/** What the kernel says that a process does: `R`, `S`, `D`, stopped `T`, ended `Z`; undefined: there is none. */
export async function processState(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  // Behind the program's name, which may hold a parenthesis itself.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[0];
}

/** Whether it has ended; its parent need not know yet. */
export const hasEnded = async (pid: number): Promise<boolean> =>
  [undefined, 'Z', 'X'].includes(await processState(pid));

/** A signal to each of them. One that has ended by itself gets none. */
export function signalAll(pids: readonly number[], signal: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}
