import { readdir, readFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { ticksPerSecond } from './usage.ts';

/** A turn of which others took a larger share of the processors than this is marked in the page. */
export const disturbed = 0.05;

/**
 * Begins to measure what others do on the machine. The function returned tells the share (0 to 1) of all processors'
 * time since then that went to processes that are neither this one nor its descendants, or to the neighbours of a
 * virtual machine. Interrupts are left out: they are our own traffic's, and the kernel books them on nobody.
 *
 * @param besides processes that are ours too, though they do not descend from this one
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

/** Seconds of CPU that this process has had, with all that descend from it. */
export const ourCpuSeconds = (): Promise<number> => ourSeconds([]);

/** What all processors have spent on programs, or had stolen, since the machine's start. @param stat of /proc/stat */
export function busySeconds(stat: string): number {
  // cpu user nice system idle iowait irq softirq steal guest guest_nice: proc_stat(5).
  const [, user = 0, nice = 0, system = 0, , , , , steal = 0] = (stat.split('\n', 1)[0] ?? '').split(/\s+/).map(Number);
  return (user + nice + system + steal) / ticksPerSecond;
}

/** Of this process, of those besides, of all that descend from them, and of those of them that have ended. */
async function ourSeconds(besides: readonly number[]): Promise<number> {
  const processes = new Map<number, Ticks>();
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    // It may have ended since.
    const stat = await readFile(`/proc/${entry}/stat`, 'utf8').catch(() => undefined);
    if (stat !== undefined) processes.set(Number(entry), readTicks(stat));
  }
  return ticksBelow([process.pid, ...besides], processes) / ticksPerSecond;
}

export interface Ticks {
  readonly parent: number;
  /** Its own, and those of its children that have ended. */
  readonly ticks: number;
}

/** Of /proc/<pid>/stat: proc_pid_stat(5). */
export function readTicks(stat: string): Ticks {
  // The second field, the name, is in parentheses and may hold spaces and parentheses.
  const fields = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const [parent = 0] = fields.slice(1);
  const [utime = 0, stime = 0, cutime = 0, cstime = 0] = fields.slice(11);
  return { parent, ticks: utime + stime + cutime + cstime };
}

/** The sum of some processes and all their descendants. */
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
