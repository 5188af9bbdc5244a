import { readdir, readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { pollUntilSolved } from './poll-until-solved.ts';

/** Returns the files below a folder that a loop device uses, which are the mounted volumes. */
export async function attachedVolumes(folder: string): Promise<readonly string[]> {
  const path = await realpath(folder).catch(() => undefined);
  if (path === undefined) return [];
  return (await attachedFiles()).filter((file) => file.startsWith(`${path}/`));
}

/** Returns the files of all loop devices of this machine, also of other programs. */
export async function attachedFiles(): Promise<readonly string[]> {
  const devices = (await readdir('/sys/block')).filter((name) => name.startsWith('loop'));
  const files = await Promise.all(
    // A free device has no such file.
    devices.map((name) => readFile(join('/sys/block', name, 'loop/backing_file'), 'utf8').catch(() => '')),
  );
  return files.map((file) => file.trimEnd()).filter((file) => file !== '');
}

const detachedTimeoutMs = 90_000;

/**
 * Waits until no volume below a folder is mounted. After a node's last process has exited, the kernel first writes its
 * data to the disk, then unmounts the node's volumes and detaches their loop devices.
 *
 * @throws ClusterError if a volume is still mounted after 90 seconds
 */
export async function waitUntilVolumesDetached(folder: string): Promise<void> {
  const findProblem = async () => {
    const attached = await attachedVolumes(folder);
    if (attached.length === 0) return undefined;
    return `these volumes are still mounted (losetup --list shows their devices): ${attached.join(', ')}`;
  };
  await pollUntilSolved(findProblem, { timeoutMs: detachedTimeoutMs, pollMs: 20 });
}
