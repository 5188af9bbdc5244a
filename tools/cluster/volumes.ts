import { readdir, readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ClusterError } from './errors.ts';

/** The files below a folder that loop devices have attached: the volumes that are mounted somewhere. */
export async function attachedVolumes(folder: string): Promise<readonly string[]> {
  const path = await realpath(folder).catch(() => undefined);
  if (path === undefined) return [];
  return (await attachedFiles()).filter((file) => file.startsWith(`${path}/`));
}

/** The files of all loop devices of this machine, those of others too. */
export async function attachedFiles(): Promise<readonly string[]> {
  const devices = (await readdir('/sys/block')).filter((name) => name.startsWith('loop'));
  const files = await Promise.all(
    // A device that is free has none.
    devices.map((name) => readFile(join('/sys/block', name, 'loop/backing_file'), 'utf8').catch(() => '')),
  );
  return files.map((file) => file.trimEnd()).filter((file) => file !== '');
}

const detachedTimeoutMs = 90_000;

/**
 * Waits until no volume below a folder is mounted: the kernel unmounts what a node has mounted, and detaches the loop
 * devices, some time after the node's last process has ended, when it has written what was not yet on the disk.
 *
 * @throws ClusterError when one is still mounted after half a minute
 */
export async function volumesDetached(folder: string): Promise<void> {
  const deadlineMs = performance.now() + detachedTimeoutMs;
  for (;;) {
    const attached = await attachedVolumes(folder);
    if (attached.length === 0) return;
    if (performance.now() > deadlineMs) {
      throw new ClusterError(
        `still mounted after ${detachedTimeoutMs / 1000} s (losetup --list says by which device): ${attached.join(', ')}`,
      );
    }
    await delay(20);
  }
}
