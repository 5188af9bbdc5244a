/**
 * Builds the image of the operator or the pet store from the Dockerfile, without an image registry.
 *
 *     node tools/release/image.ts [petstore]     prints the image's name and its docker-archive
 *
 * Folders with this machine's bundle and Node binary replace the Dockerfile's stages `bundle` and `node-binary`. An
 * image with Node's shared libraries replaces the base image of the last stage. All files stay in the cache folder.
 */
import { createHash } from 'node:crypto';
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { execa } from 'execa';
import { abortOnInterrupt, exitCodeOf } from '../abort-on-interrupt.ts';
import { cacheFolder } from '../cache-folder.ts';
import { ensureDebianPackages, PackagesError } from '../debian.ts';
import { bundle } from './bundle.ts';
import { buildahIn } from './image/buildah.ts';

const repository = join(import.meta.dirname, '../..');

export type Image = {
  /** Repository and tag, as in the chart. */
  readonly name: string;
  /** A docker-archive, for `npm run cluster -- load`, `docker load`, `kind load image-archive`. */
  readonly archive: string;
  readonly bytes: number;
};

/** This machine cannot build the image. The message says what to do instead. */
export class ImageError extends Error {
  override readonly name = 'ImageError';
}

/** The files, besides the Dockerfile, that determine the content of the image. */
const sources = [
  'src',
  'packages',
  'tools/release/bundle.ts',
  'tools/release/bundle',
  'tools/release/image.ts',
  'tools/release/image',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
  'LICENSE',
].map((path) => join(repository, path));

/** The images, each with its main module and its folder in the Dockerfile's stage `bundle`. */
const programs = {
  echoperator: { entry: 'src/main.ts', folder: 'app', target: [] },
  petstore: { entry: 'packages/petstore/src/server/main.ts', folder: 'petstore', target: ['--target', 'petstore'] },
} as const;

export type ImageName = keyof typeof programs;

/** The cache keeps several archives, because one may be loading while a newer one is built. */
const cachedArchives = 6;

/**
 * Builds the image, unless an image of the same sources is in the cache. Concurrent builds are safe: each has its own
 * folder, and renames its archive at the end.
 *
 * @throws ImageError if this machine cannot build it; PackagesError if buildah cannot be installed
 */
export async function buildImage({
  signal,
  image = 'echoperator',
}: {
  readonly signal?: AbortSignal;
  readonly image?: ImageName;
} = {}): Promise<Image> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) {
    throw new ImageError(
      'Building the image without a registry requires root on Linux. With a registry, run: docker build .',
    );
  }
  const cache = join(cacheFolder(), 'images');
  await mkdir(cache, { recursive: true });
  const { text: dockerfile, base } = await readDockerfile();
  const { version } = JSON.parse(await readFile(join(repository, 'package.json'), 'utf8')) as {
    readonly version: string;
  };
  const name = `ghcr.io/echoperator/${image}:${version}`;
  const libraries = await librariesOf(process.execPath, signal);
  const key = await fingerprint([image, dockerfile, process.version, process.arch], [...sources, ...libraries]);
  const archive = join(cache, `${key}.tar`);
  if (!(await exists(archive))) {
    await ensureDebianPackages(['buildah'], signal === undefined ? {} : { signal });
    await removeAbandoned(cache);
    const work = await mkdtemp(join(cache, `building-${process.pid}-`));
    try {
      await build({ work, dockerfile, base, libraries, image, name, version, signal });
      await rename(join(work, 'image.tar'), archive);
    } finally {
      await rm(work, { recursive: true, force: true });
    }
    await removeOld(cache);
  }
  return { name, archive, bytes: (await stat(archive)).size };
}

async function build({
  work,
  dockerfile,
  base,
  libraries,
  image,
  name,
  version,
  signal,
}: {
  readonly work: string;
  readonly dockerfile: string;
  readonly base: string;
  readonly libraries: readonly string[];
  readonly image: ImageName;
  readonly name: string;
  readonly version: string;
  readonly signal: AbortSignal | undefined;
}): Promise<void> {
  const buildah = buildahIn(work, signal);
  const reproducible = ['--timestamp', '0'];

  const { entry, folder, target } = programs[image];
  await bundle({ folder: join(work, 'bundle', folder), entry: join(repository, entry) });

  const node = join(work, 'node-binary/rootfs/usr/local');
  await cp(process.execPath, join(node, 'bin/node'));
  await cp(join(dirname(process.execPath), '../LICENSE'), join(node, 'share/doc/node/LICENSE'));

  for (const library of libraries) {
    const copy = join(work, 'base/rootfs', library);
    await mkdir(dirname(copy), { recursive: true });
    await cp(library, copy, { dereference: true });
  }
  await writeFile(join(work, 'base/Dockerfile'), 'FROM scratch\nCOPY rootfs /\n');
  await writeFile(join(work, 'Dockerfile'), dockerfile);
  await buildah('build', ...reproducible, '--tag', base, join(work, 'base'));

  await buildah(
    'build',
    ...['--pull-never', ...reproducible, ...target, '--build-arg', `VERSION=${version}`],
    ...['--build-context', `bundle=${join(work, 'bundle')}`],
    ...['--build-context', `node-binary=${join(work, 'node-binary')}`],
    ...['--file', join(work, 'Dockerfile'), '--tag', name, repository],
  );
  await buildah('push', name, `docker-archive:${join(work, 'image.tar')}:${name}`);
}

/** Removes the digests of the base images, which the local images do not have. */
export const withoutDigests = (dockerfile: string): string =>
  dockerfile.replaceAll(/^(FROM .*)@sha256:[0-9a-f]{64}/gm, '$1');

/** Returns the Dockerfile for local base images. @throws ImageError if its Node is not the one that runs this */
async function readDockerfile(): Promise<{ readonly text: string; readonly base: string }> {
  const text = withoutDigests(await readFile(join(repository, 'Dockerfile'), 'utf8'));
  const images = [...text.matchAll(/^FROM (?:--\S+ )*(\S+)/gm)].map((match) => match[1]);
  const base = images.at(-1);
  if (base === undefined) throw new ImageError('The Dockerfile has no FROM.');
  if (!images.some((image) => image?.startsWith(`docker.io/library/node:${process.versions.node}-`))) {
    throw new ImageError(
      `This is Node ${process.versions.node}, but the Dockerfile uses another version: run \`make image\`.`,
    );
  }
  return { text, base };
}

/** Returns the absolute paths of a program's shared libraries and its loader. @throws ImageError if one is missing */
export async function librariesOf(program: string, signal: AbortSignal | undefined): Promise<readonly string[]> {
  const { stdout } = await execa('ldd', [program], signal === undefined ? {} : { cancelSignal: signal });
  const missing = /^\s*(\S+) => not found/m.exec(stdout);
  if (missing !== null) throw new ImageError(`${program} needs ${missing[1]}, which this machine does not have.`);
  return [...stdout.matchAll(/(?:=>|^)\s+(\/\S+) \(0x/gm)].map((match) => String(match[1])).sort();
}

/** Returns a hash of texts and of the contents of files and folders. */
async function fingerprint(words: readonly string[], paths: readonly string[]): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(words));
  for (const path of paths) {
    const files = (await stat(path)).isDirectory()
      ? (await readdir(path, { recursive: true, withFileTypes: true }))
          .filter((entry) => entry.isFile())
          .map((entry) => join(entry.parentPath, entry.name))
          .sort()
      : [path];
    for (const file of files)
      hash
        .update(file.slice(path.length))
        .update('\0')
        .update(await readFile(file));
  }
  return hash.digest('hex').slice(0, 16);
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

/** Removes the folders of killed builds. A folder's name contains the process id of its build. */
async function removeAbandoned(cache: string): Promise<void> {
  for (const entry of await readdir(cache)) {
    const pid = /^building-(\d+)-/.exec(entry)?.[1];
    if (pid !== undefined && !(await exists(`/proc/${pid}`)))
      await rm(join(cache, entry), { recursive: true, force: true });
  }
}

async function removeOld(cache: string): Promise<void> {
  const archives = (await readdir(cache)).filter((entry) => entry.endsWith('.tar')).map((entry) => join(cache, entry));
  const dated = await Promise.all(archives.map(async (archive) => ({ archive, time: (await stat(archive)).mtimeMs })));
  const old = dated.sort((a, b) => b.time - a.time).slice(cachedArchives);
  for (const { archive } of old) await rm(archive, { force: true });
}

async function main([argument = 'echoperator']: readonly string[]): Promise<void> {
  const image = (Object.keys(programs) as ImageName[]).find((name) => name === argument);
  if (image === undefined) {
    console.error(`Unknown image ${argument}. The images are ${Object.keys(programs).join(', ')}.`);
    process.exitCode = 2;
    return;
  }
  const signal = abortOnInterrupt();
  const started = performance.now();
  try {
    const { name, archive, bytes } = await buildImage({ signal, image });
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    console.log(`${name}: ${Math.round(bytes / 1e6)} MB in ${seconds} s\n${archive}`);
  } catch (error) {
    if (signal.aborted) {
      process.exitCode = exitCodeOf(signal.reason as NodeJS.Signals);
      return;
    }
    if (!(error instanceof ImageError || error instanceof PackagesError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}

// No top-level await: jest's global setup imports this module, and cannot load one that has it.
if (import.meta.main) void main(process.argv.slice(2));
