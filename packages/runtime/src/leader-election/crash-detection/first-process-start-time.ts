import { readFileSync } from 'node:fs';

/** USER_HZ, the unit of times in /proc, in ticks per second: 100 on every platform that Node supports. */
const userHz = 100;

/**
 * Index of `starttime` in /proc/PID/stat, counted after the process name, which may contain spaces (proc(5), field 22).
 */
const startTimeField = 19;

/**
 * When the first process of this PID namespace was created, in milliseconds since 1970 by the current wall clock. In a
 * container with its own PID namespace that is the container's first process.
 *
 * The container runtime creates that process first and records the container's `startedAt` later, so `startedAt` is
 * never earlier than the returned time.
 *
 * @throws Error if /proc is missing or has another format.
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
    throw new Error(`no times in /proc/1/stat and /proc/uptime: ${stat.trim()}; ${uptime.trim()}`);
  }
  return Date.now() - (uptimeSeconds - ticks / userHz) * 1000;
}
