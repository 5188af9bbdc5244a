import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

const main = join(import.meta.dirname, 'main.ts');

/** Ends the watch. */
export interface Watchdog {
  /** Resolves when the watch has ended; the cluster stays as it is. */
  release(): Promise<void>;
}

/**
 * Has a cluster removed should this process end without {@link Watchdog.release}, however it ends: a process of its
 * own reads from a pipe, which the kernel closes with us.
 */
export async function removeWhenWeDie(clusterName: string): Promise<Watchdog> {
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
