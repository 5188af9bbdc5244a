import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';

/** Runs buildah with some arguments. @throws ExecaError with buildah's own words where it fails */
export type Buildah = (...args: readonly string[]) => Promise<void>;

/**
 * Buildah without a daemon and without namespaces, with all of its storage in one folder: remove it, and nothing is left.
 * Needs root on Linux.
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
        // For root, the cache of blob locations is /var/lib/containers/cache and no option moves it; for the user whom
        // buildah believes to have been before `buildah unshare`, it is below XDG_DATA_HOME.
        _CONTAINERS_ROOTLESS_UID: '65532',
        XDG_DATA_HOME: join(folder, 'data'),
        // What that user's processes share, otherwise in /run/user; passed over unless it is there.
        XDG_RUNTIME_DIR: runtimeFolder,
      },
      ...(signal === undefined ? {} : { cancelSignal: signal }),
    });
  };
}
