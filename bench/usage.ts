import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

/** The kernel's clock ticks per second in /proc: 100 on every architecture that Node runs on. */
export const ticksPerSecond = 100;

/** Seconds of CPU, user and system, that a process has had. */
export async function cpuSeconds(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  // The second field, the name, is in parentheses and may hold spaces. utime and stime are the 14th and 15th.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

/** The memory of a process in MB (10^6 bytes). */
export interface Memory {
  /** Includes the pages of files, such as the program's own binary, which processes share. */
  readonly resident: number;
  /** Only this process's own: its heap, its stacks and what it has written to. */
  readonly anonymous: number;
  /** The largest `resident` since the process started. */
  readonly peak: number;
}

export async function memoryMB(pid: number): Promise<Memory> {
  return parseMemory(await readFile(`/proc/${pid}/status`, 'utf8'));
}

/** Parses /proc/<pid>/status: proc_pid_status(5). @throws Error if a field is missing */
export function parseMemory(status: string): Memory {
  const megabytes = (field: string): number => {
    const kibibytes = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1];
    if (kibibytes === undefined) throw new Error(`the status of the process has no ${field}`);
    return (Number(kibibytes) * 1024) / 1e6;
  };
  return { resident: megabytes('VmRSS'), anonymous: megabytes('RssAnon'), peak: megabytes('VmHWM') };
}

/** The kernel records no peak of anonymous memory. */
const sampleMs = 20;

/**
 * Runs `work`.
 *
 * @returns its result, and the largest sample of the process's anonymous memory meanwhile and at the end, in MB
 */
export async function withPeakAnonymous<T>(pid: number, work: () => Promise<T>): Promise<readonly [T, number]> {
  const done = new AbortController();
  let peak = 0;
  const sample = async () => {
    peak = Math.max(peak, (await memoryMB(pid)).anonymous);
  };
  const sampling = (async () => {
    for (; !done.signal.aborted; await delay(sampleMs)) await sample();
  })();
  // Awaited below, unless `work` fails.
  sampling.catch(() => {});
  try {
    const result = await work();
    await sample();
    done.abort();
    await sampling;
    return [result, peak];
  } finally {
    done.abort();
  }
}
