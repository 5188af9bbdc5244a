import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ensureDebianPackages } from '../../tools/debian.ts';
import { buildahIn } from '../../tools/release/image/buildah.ts';

/** An image in a docker-archive. */
export interface PeerImage {
  readonly name: string;
  readonly archive: string;
}

/**
 * Builds an image of a static program, such as a Go peer.
 *
 * @param parent the parent of the image's folder
 * @throws PackagesError if buildah is missing and cannot be installed
 */
export async function staticImage(
  peer: string,
  program: string,
  parent: string,
  signal: AbortSignal,
): Promise<PeerImage> {
  await ensureDebianPackages(['buildah'], { signal });
  const name = `localhost/${peer}:bench`;
  const work = join(parent, `image-${peer}`);
  const context = join(work, 'context');
  await mkdir(context, { recursive: true });
  await copyFile(program, join(context, 'peer'));
  await writeFile(
    join(context, 'Dockerfile'),
    'FROM scratch\nCOPY peer /peer\nUSER 65532:65532\nENTRYPOINT ["/peer"]\n',
  );
  const buildah = buildahIn(work, signal);
  await buildah('build', '--quiet', '--tag', name, context);
  const archive = join(work, 'image.tar');
  await buildah('push', '--quiet', name, `docker-archive:${archive}:${name}`);
  return { name, archive };
}
