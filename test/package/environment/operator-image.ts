import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { buildahIn } from '../../../tools/release/image/buildah.ts';
import { librariesOf } from '../../../tools/release/image.ts';

/** What an operator's image is built from. */
export interface OperatorImageOptions {
  /** The operator's folder, with its Dockerfile and the bundle in `dist`. */
  readonly operator: string;
  /** The program `node` of the image. */
  readonly node: string;
  /** Repository and tag. */
  readonly name: string;
  /** For all files of the build. */
  readonly folder: string;
}

/**
 * Builds an operator's image from its Dockerfile, without an image registry: the bundle of this machine replaces the
 * stage `bundle`, and an image with only Node and its libraries replaces the distroless one.
 *
 * @returns a docker-archive
 */
export async function buildOperatorImage({ operator, node, name, folder }: OperatorImageOptions): Promise<string> {
  await mkdir(folder, { recursive: true });
  const buildah = buildahIn(folder, undefined);
  const dockerfile = join(operator, 'Dockerfile');
  const base = /^FROM (\S+)$/m.exec(await readFile(dockerfile, 'utf8'))?.[1];
  if (base === undefined) throw new Error(`${dockerfile} has no last stage`);

  const copies = [[node, '/nodejs/bin/node'], ...(await librariesOf(node, undefined)).map((path) => [path, path])];
  for (const [from = '', to = ''] of copies) {
    const copy = join(folder, 'base/rootfs', to);
    await mkdir(dirname(copy), { recursive: true });
    await cp(from, copy, { dereference: true });
  }
  const text = 'FROM scratch\nCOPY rootfs /\nENTRYPOINT ["/nodejs/bin/node"]\n';
  await writeFile(join(folder, 'base/Dockerfile'), text);
  await buildah('build', '--tag', base, join(folder, 'base'));

  await cp(join(operator, 'dist'), join(folder, 'bundle/src/dist'), { recursive: true });
  const context = ['--build-context', `bundle=${join(folder, 'bundle')}`];
  await buildah('build', '--pull-never', ...context, '--file', dockerfile, '--tag', name, operator);
  const archive = join(folder, 'image.tar');
  await buildah('push', name, `docker-archive:${archive}:${name}`);
  return archive;
}
