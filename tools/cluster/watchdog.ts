import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

const main = join(import.meta.dirname, 'main.ts');

/** A process that removes a cluster when this process ends. */
export interface Watchdog {
  /** Stops the watchdog without removing the cluster. Resolves when the watchdog has exited. */
  release(): Promise<void>;
}

/**
 * Starts a process that removes the cluster when this process ends without {@link Watchdog.release}, even if it is
 * killed. The process reads from a pipe that the kernel closes when this process ends.
 */
export async function removeClusterOnExit(clusterName: string): Promise<Watchdog> {
  const script = 'read -r line || exec "$0" "$1" down --name "$2"';
  const child = spawn('bash', ['-c', script, process.execPath, main, clusterName], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  await once(child, 'spawn');
  return {
    release: async () => {
      child.stdin.end('released\n');
      if (child.exitCode === null) await once(child, 'exit');
    },
  };
}
