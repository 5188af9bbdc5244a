import { readdir, readFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { ticksPerSecond } from './usage.ts';

/** The page marks a turn during which other processes used a larger share of the processors. */
export const disturbed = 0.05;

/**
 * Starts to measure the load of other processes: of all but this process and its descendants, and of a virtual
 * machine's neighbours. Interrupts do not count, because our own traffic causes them, and the kernel assigns them to no
 * process.
 *
 * @param besides returns more processes of our own, which do not descend from this one
 * @returns a function that returns the share (0 to 1) of all processors' time that other processes used since this call
 */
export async function watchOthers(
  besides: () => Promise<readonly number[]> = async () => [],
): Promise<() => Promise<number>> {
  const begun = performance.now();
  const before = await othersSeconds(await besides());
  return async () => {
    const others = (await othersSeconds(await besides())) - before;
    const seconds = (performance.now() - begun) / 1000;
    return Math.max(0, others / (seconds * availableParallelism()));
  };
}

async function othersSeconds(besides: readonly number[]): Promise<number> {
  const [all, ours] = await Promise.all([readFile('/proc/stat', 'utf8').then(busySeconds), ourSeconds(besides)]);
  return all - ours;
}

/** Returns the seconds of CPU that this process and its descendants have used. */
export const ourCpuSeconds = (): Promise<number> => ourSeconds([]);

/**
 * Returns the seconds that all processors ran programs or were stolen since the machine started.
 *
 * @param stat the text of /proc/stat
 */
export function busySeconds(stat: string): number {
  // cpu user nice system idle iowait irq softirq steal guest guest_nice: proc_stat(5).
  const [, user = 0, nice = 0, system = 0, , , , , steal = 0] = (stat.split('\n', 1)[0] ?? '').split(/\s+/).map(Number);
  return (user + nice + system + steal) / ticksPerSecond;
}

/** Returns the CPU seconds of this process, of `besides`, and of their descendants, also of those that have ended. */
async function ourSeconds(besides: readonly number[]): Promise<number> {
  const processes = new Map<number, Ticks>();
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    // Undefined if the process has ended.
    const stat = await readFile(`/proc/${entry}/stat`, 'utf8').catch(() => undefined);
    if (stat !== undefined) processes.set(Number(entry), readTicks(stat));
  }
  return ticksBelow([process.pid, ...besides], processes) / ticksPerSecond;
}

export interface Ticks {
  readonly parent: number;
  /** Including those of its children that have ended. */
  readonly ticks: number;
}

/** Parses /proc/<pid>/stat: proc_pid_stat(5). */
export function readTicks(stat: string): Ticks {
  // The second field is the name in parentheses, which may contain spaces and parentheses.
  const fields = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const [parent = 0] = fields.slice(1);
  const [utime = 0, stime = 0, cutime = 0, cstime = 0] = fields.slice(11);
  return { parent, ticks: utime + stime + cutime + cstime };
}

/** Returns the sum of the ticks of some processes and all their descendants. */
export function ticksBelow(roots: readonly number[], processes: ReadonlyMap<number, Ticks>): number {
  const known = new Set(roots);
  const isBelow = (pid: number): boolean => {
    for (let at: number | undefined = pid; at !== undefined && at !== 0; at = processes.get(at)?.parent) {
      if (known.has(at)) return true;
    }
    return false;
  };
  let sum = 0;
  for (const [pid, { ticks }] of processes) if (isBelow(pid)) sum += ticks;
  return sum;
}
