import { createHash } from 'node:crypto';
import { chmod, copyFile, mkdir, mkdtemp, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { execa } from 'execa';
import { cacheFolder } from '../cache-folder.ts';
import { buildahIn } from '../release/image/buildah.ts';
import { librariesOf } from '../release/image.ts';

/** The image of a pod's sandbox, which containerd's configuration pins. */
export const pauseImage = 'localhost/pause:1';

/** A Dockerfile instruction for programs that ignore SIGTERM, so that their pods stop at once. */
export const stopImmediately = 'STOPSIGNAL SIGKILL\n';

/** The images on every node. Each Dockerfile copies a root folder with one static program. */
const baseImages: Readonly<Record<string, string>> = {
  'docker.io/library/busybox:1.36': `FROM scratch\nCOPY root /\n${stopImmediately}CMD ["sh"]\n`,
  [pauseImage]: 'FROM scratch\nCOPY root /\nENTRYPOINT ["/bin/sleep", "2147483647"]\n',
};

/** Increment when {@link makeBusyboxRoot} creates a different root from the same program. */
const rootVersion = '2';

/** Debian's busybox-static. */
const busybox = '/bin/busybox';

/** Returns the archives of the base images. Builds those that are not in the cache. */
export async function baseImageArchives(signal: AbortSignal | undefined): Promise<readonly string[]> {
  const inputs = [await readFile(busybox), rootVersion];
  const archives: string[] = [];
  for (const [name, dockerfile] of Object.entries(baseImages)) {
    archives.push(await imageArchive({ name, dockerfile, inputs, makeRoot: makeBusyboxRoot }, signal));
  }
  return archives;
}

/** An image that is built on this machine. */
export interface LocalImage {
  /** Registry, repository and tag. */
  readonly name: string;
  /** Its build context contains the folder `root`, filled by {@link makeRoot}. */
  readonly dockerfile: string;
  /** Together with name and Dockerfile, the cache key. The image is built again when an input changes. */
  readonly inputs: readonly (string | Buffer)[];
  /** Creates and fills the folder `root`. */
  readonly makeRoot: (root: string) => Promise<void>;
}

/** Returns the docker-archive of an image. Builds the image if it is not in the cache. */
export async function imageArchive(image: LocalImage, signal: AbortSignal | undefined): Promise<string> {
  const cache = join(cacheFolder(), 'base-images');
  await mkdir(cache, { recursive: true });
  const key = [...image.inputs, image.name, image.dockerfile]
    .reduce((hash, part) => hash.update(part), createHash('sha256'))
    .digest('hex')
    .slice(0, 16);
  const archive = join(cache, `${key}.tar`);
  if (!(await stat(archive).catch(() => undefined))) await build(image, archive, signal);
  return archive;
}

async function build(
  { name, dockerfile, makeRoot }: LocalImage,
  archive: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const work = await mkdtemp(join(dirname(archive), 'building-'));
  try {
    const context = join(work, 'context');
    await makeRoot(join(context, 'root'));
    await writeFile(join(context, 'Dockerfile'), dockerfile);
    const buildah = buildahIn(work, signal);
    await buildah('build', '--quiet', '--tag', name, context);
    await buildah('push', '--quiet', name, `docker-archive:${join(work, 'image.tar')}:${name}`);
    // The rename is atomic, so that another process never reads a partial archive.
    await rename(join(work, 'image.tar'), archive);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Creates a root folder with busybox and a link for each of its names. The image build itself cannot run programs. */
export async function makeBusyboxRoot(root: string): Promise<void> {
  await mkdir(join(root, 'bin'), { recursive: true });
  await mkdir(join(root, 'tmp'));
  await chmod(join(root, 'tmp'), 0o1777);
  await copyFile(busybox, join(root, 'bin/busybox'));
  const { stdout } = await execa(busybox, ['--list']);
  const names = stdout.split('\n').filter((name) => name !== 'busybox');
  await Promise.all(names.map((name) => symlink('busybox', join(root, 'bin', name))));
}

/** Copies a program or library with its shared libraries. @param path in the image. Default: the same path as here */
export async function addProgram(root: string, program: string, path = program): Promise<void> {
  const copies = [[program, path], ...(await librariesOf(program, undefined)).map((library) => [library, library])];
  for (const [from = '', to = ''] of copies) {
    await mkdir(dirname(join(root, to)), { recursive: true });
    await copyFile(from, join(root, to));
  }
}
