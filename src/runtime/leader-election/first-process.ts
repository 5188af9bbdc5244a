import { readFileSync } from 'node:fs';

/** Ticks a second in which the kernel tells times to programs: USER_HZ, which is 100 wherever Node runs. */
const userHz = 100;

/** Where `starttime` stands in /proc/PID/stat behind the name, which may hold spaces and brackets (proc(5): field 22). */
const startTimeField = 19;

/**
 * When the first process of this PID namespace was made, in milliseconds since 1970 by the wall clock of now: in a
 * container that has a PID namespace of its own, its own first process.
 *
 * The runtime makes that process when it creates the container, and notes `startedAt` only once it has told it to go on.
 * So what it notes is never earlier.
 *
 * @throws Error where there is no /proc, or it says something else.
 */
export function firstProcessStartedAtMs(): number {
  const stat = readFileSync('/proc/1/stat', 'utf8');
  const ticks = Number(
    stat
      .slice(stat.lastIndexOf(')') + 1)
      .trim()
      .split(' ')[startTimeField],
  );
  const uptime = readFileSync('/proc/uptime', 'utf8');
  const uptimeSeconds = Number(uptime.split(' ')[0]);
  if (!Number.isFinite(ticks) || !Number.isFinite(uptimeSeconds)) {
    throw new Error(`/proc/1/stat and /proc/uptime have no times: ${stat.trim()}; ${uptime.trim()}`);
  }
  return Date.now() - (uptimeSeconds - ticks / userHz) * 1000;
}
