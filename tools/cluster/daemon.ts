import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open } from 'node:fs/promises';
import { type Cgroups, enterCgroup } from './cgroups.ts';

/** Excludes the caller's environment, because its proxy settings would apply to the cluster's own addresses. */
const environment = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' };

/** A process that outlives the process that starts it. */
export interface Daemon {
  /** The cgroup by which later commands find the process. */
  readonly cgroup: string;
  /** The file of the process's network namespace. */
  readonly namespace: string;
  readonly logFile: string;
  readonly command: readonly [program: string, ...args: string[]];
}

/** Starts a daemon. Returns when the shell runs that then executes the command. */
export async function startDaemon(cgroups: Cgroups, { cgroup, namespace, logFile, command }: Daemon): Promise<void> {
  const log = await open(logFile, 'a');
  try {
    // `nsenter --net`, because `ip netns exec` would hide /sys/fs/cgroup.
    const script = `set -e\n${enterCgroup(cgroups, cgroup)}\nexec nsenter --net="$1" -- "\${@:2}"`;
    const child = spawn('bash', ['-c', script, 'daemon', namespace, ...command], {
      cwd: '/',
      env: environment,
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
    });
    await once(child, 'spawn');
    child.unref();
  } finally {
    await log.close();
  }
}
