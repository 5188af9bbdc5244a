import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open } from 'node:fs/promises';
import { type Cgroups, enterCgroup } from './cgroups.ts';

/**
 * Nothing of the environment of whoever starts it: a proxy that is set there would be asked for the cluster's own
 * addresses.
 */
const environment = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' };

/** A process that outlives whoever starts it. */
export interface Daemon {
  /** Its group, which is how it is found again. */
  readonly cgroup: string;
  /** The file of the network namespace that it runs in. */
  readonly namespace: string;
  readonly logFile: string;
  readonly command: readonly [program: string, ...args: string[]];
}

/** Starts it; returns when the shell that becomes it runs. */
export async function startDaemon(cgroups: Cgroups, { cgroup, namespace, logFile, command }: Daemon): Promise<void> {
  const log = await open(logFile, 'a');
  try {
    // `nsenter --net` and not `ip netns exec`, which would hide /sys/fs/cgroup.
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
