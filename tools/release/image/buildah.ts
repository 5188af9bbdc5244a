import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';

/** Runs buildah. @throws ExecaError with buildah's error output */
export type Buildah = (...args: readonly string[]) => Promise<void>;

/**
 * Returns a buildah that keeps all of its files in one folder and uses no namespaces. Requires root on Linux.
 */
export function buildahIn(folder: string, signal: AbortSignal | undefined): Buildah {
  const runtimeFolder = join(folder, 'run-user');
  return async (...args) => {
    await mkdir(runtimeFolder, { recursive: true, mode: 0o700 });
    await execa('buildah', ['--root', join(folder, 'storage'), '--runroot', join(folder, 'run'), ...args], {
      env: {
        BUILDAH_ISOLATION: 'chroot',
        STORAGE_DRIVER: 'vfs',
        TMPDIR: folder,
        // The cache of blob locations: root's is always in /var/lib/containers/cache. With this variable buildah
        // believes that another user ran `buildah unshare`, and uses XDG_DATA_HOME.
        _CONTAINERS_ROOTLESS_UID: '65532',
        XDG_DATA_HOME: join(folder, 'data'),
        // Replaces /run/user. buildah ignores it unless the folder exists.
        XDG_RUNTIME_DIR: runtimeFolder,
      },
      ...(signal === undefined ? {} : { cancelSignal: signal }),
    });
  };
}
