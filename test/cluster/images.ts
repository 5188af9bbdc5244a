import { createHash } from 'node:crypto';
import { chmod, copyFile, mkdir, mkdtemp, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { buildahIn } from '../../tools/image/buildah.ts';
import { cacheFolder } from '../../tools/index.ts';

/** What holds a pod's namespaces; pinned in containerd's configuration. */
export const pauseImage = 'localhost/pause:1';

/** The images that every node has, each as a Dockerfile over a root folder that is one static program. */
const baseImages: Readonly<Record<string, string>> = {
  'docker.io/library/busybox:1.36': 'FROM scratch\nCOPY root /\nCMD ["sh"]\n',
  [pauseImage]: 'FROM scratch\nCOPY root /\nENTRYPOINT ["/bin/sleep", "2147483647"]\n',
};

/** Raised when {@link makeRoot} makes another root of the same program. */
const rootVersion = '2';

/** Debian's busybox-static. */
const busybox = '/bin/busybox';

/** The archives of the base images, built where the cache lacks them. */
export async function baseImageArchives(signal: AbortSignal | undefined): Promise<readonly string[]> {
  const program = await readFile(busybox);
  const cache = join(cacheFolder(), 'base-images');
  await mkdir(cache, { recursive: true });
  const archives: string[] = [];
  for (const [name, dockerfile] of Object.entries(baseImages)) {
    const parts = [program, name, dockerfile, rootVersion];
    const key = parts
      .reduce((hash, part) => hash.update(part), createHash('sha256'))
      .digest('hex')
      .slice(0, 16);
    const archive = join(cache, `${key}.tar`);
    if (!(await stat(archive).catch(() => undefined))) await build({ name, dockerfile, archive, cache, signal });
    archives.push(archive);
  }
  return archives;
}

async function build(options: {
  readonly name: string;
  readonly dockerfile: string;
  readonly archive: string;
  readonly cache: string;
  readonly signal: AbortSignal | undefined;
}): Promise<void> {
  const { name, dockerfile, archive, cache, signal } = options;
  const work = await mkdtemp(join(cache, 'building-'));
  try {
    const context = join(work, 'context');
    await makeRoot(join(context, 'root'));
    await writeFile(join(context, 'Dockerfile'), dockerfile);
    const buildah = buildahIn(work, signal);
    await buildah('build', '--quiet', '--tag', name, context);
    await buildah('push', '--quiet', name, `docker-archive:${join(work, 'image.tar')}:${name}`);
    // Whole or not at all, whoever builds beside us.
    await rename(join(work, 'image.tar'), archive);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Busybox under all of its names. A link for each is made here, because nothing can run in an image being built. */
async function makeRoot(root: string): Promise<void> {
  await mkdir(join(root, 'bin'), { recursive: true });
  await mkdir(join(root, 'tmp'));
  await chmod(join(root, 'tmp'), 0o1777);
  await copyFile(busybox, join(root, 'bin/busybox'));
  const { stdout } = await execa(busybox, ['--list']);
  const names = stdout.split('\n').filter((name) => name !== 'busybox');
  await Promise.all(names.map((name) => symlink('busybox', join(root, 'bin', name))));
}
