import { readFile } from 'node:fs/promises';

/** The kernel's clock ticks per second in /proc: 100 on every architecture that Node runs on. */
export const ticksPerSecond = 100;

/** Seconds of CPU, user and system, that a process has had. */
export async function cpuSeconds(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  // The second field, the name, is in parentheses and may hold spaces. utime and stime are the 14th and 15th.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

/** Resident memory of a process in MB (10^6 bytes): now, and at its peak. */
export async function memoryMB(pid: number): Promise<{ readonly now: number; readonly peak: number }> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const megabytes = (field: string): number => {
    const kibibytes = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1];
    if (kibibytes === undefined) throw new Error(`/proc/${pid}/status has no ${field}`);
    return (Number(kibibytes) * 1024) / 1e6;
  };
  return { now: megabytes('VmRSS'), peak: megabytes('VmHWM') };
}
