import { createHash } from 'node:crypto';
import { chmod, copyFile, mkdir, mkdtemp, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { execa } from 'execa';
import { cacheFolder } from '../cache-folder.ts';
import { buildahIn } from '../release/image/buildah.ts';
import { librariesOf } from '../release/image.ts';

/** What holds a pod's namespaces; pinned in containerd's configuration. */
export const pauseImage = 'localhost/pause:1';

/** For a Dockerfile: what does not end at SIGTERM, as whatever is its container's first process, is not waited for. */
export const endsAtOnce = 'STOPSIGNAL SIGKILL\n';

/** The images that every node has, each as a Dockerfile over a root folder that is one static program. */
const baseImages: Readonly<Record<string, string>> = {
  'docker.io/library/busybox:1.36': `FROM scratch\nCOPY root /\n${endsAtOnce}CMD ["sh"]\n`,
  [pauseImage]: 'FROM scratch\nCOPY root /\nENTRYPOINT ["/bin/sleep", "2147483647"]\n',
};

/** Raised when {@link makeBusyboxRoot} makes another root of the same program. */
const rootVersion = '2';

/** Debian's busybox-static. */
const busybox = '/bin/busybox';

/** The archives of the base images, built where the cache lacks them. */
export async function baseImageArchives(signal: AbortSignal | undefined): Promise<readonly string[]> {
  const madeOf = [await readFile(busybox), rootVersion];
  const archives: string[] = [];
  for (const [name, dockerfile] of Object.entries(baseImages)) {
    archives.push(await imageArchive({ name, dockerfile, madeOf, makeRoot: makeBusyboxRoot }, signal));
  }
  return archives;
}

/** An image that is made on this machine. */
export interface LocalImage {
  /** Registry, repository and tag. */
  readonly name: string;
  /** Finds what {@link makeRoot} has made in the folder `root`. */
  readonly dockerfile: string;
  /** What decides what is in the image, beside name and Dockerfile: where it is other, the image is made anew. */
  readonly madeOf: readonly (string | Buffer)[];
  /** Fills the folder `root`, which is not there yet. */
  readonly makeRoot: (root: string) => Promise<void>;
}

/** The docker-archive of an image, built where the cache lacks it. */
export async function imageArchive(image: LocalImage, signal: AbortSignal | undefined): Promise<string> {
  const cache = join(cacheFolder(), 'base-images');
  await mkdir(cache, { recursive: true });
  const key = [...image.madeOf, image.name, image.dockerfile]
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
    // Whole or not at all, whoever builds beside us.
    await rename(join(work, 'image.tar'), archive);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Busybox under all of its names. A link for each is made here, because nothing can run in an image being built. */
export async function makeBusyboxRoot(root: string): Promise<void> {
  await mkdir(join(root, 'bin'), { recursive: true });
  await mkdir(join(root, 'tmp'));
  await chmod(join(root, 'tmp'), 0o1777);
  await copyFile(busybox, join(root, 'bin/busybox'));
  const { stdout } = await execa(busybox, ['--list']);
  const names = stdout.split('\n').filter((name) => name !== 'busybox');
  await Promise.all(names.map((name) => symlink('busybox', join(root, 'bin', name))));
}

/** Copies a program, or a library, with the libraries that it asks for. @param path where it is to be; as it is here by default */
export async function addProgram(root: string, program: string, path = program): Promise<void> {
  const copies = [[program, path], ...(await librariesOf(program, undefined)).map((library) => [library, library])];
  for (const [from = '', to = ''] of copies) {
    await mkdir(dirname(join(root, to)), { recursive: true });
    await copyFile(from, join(root, to));
  }
}
