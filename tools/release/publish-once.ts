/**
 * Publishes an image or a chart in a registry, unless the registry has the version. So a version that users have pulled
 * is never replaced. Prints the digest of the version in the registry. Needs skopeo, for a chart also Helm, and no npm
 * package.
 *
 *     node tools/release/publish-once.ts image ARCHIVE.tar REGISTRY/REPOSITORY:VERSION      an OCI archive
 *     node tools/release/publish-once.ts chart PACKAGE.tgz REGISTRY/REPOSITORY:VERSION      a package of `helm package`
 *
 * With --plain-http as the last argument the registry has no TLS.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

/** The version cannot be published. */
export class PublishError extends Error {
  override readonly name = 'PublishError';
}

interface Publication {
  readonly file: string;
  /** `REGISTRY/REPOSITORY:VERSION` */
  readonly reference: string;
  /** Whether the registry has no TLS. */
  readonly plainHttp: boolean;
}

/** How a kind of artifact is compared and pushed. */
interface Artifact {
  /** Whether the manifest in the registry is of the file's content. */
  readonly isOf: (manifest: Buffer, file: string) => Promise<boolean>;
  readonly push: (publication: Publication) => Promise<unknown>;
}

const maxBytes = 64 * 1024 * 1024;

const run = async (program: string, args: readonly string[]): Promise<Buffer> =>
  (await promisify(execFile)(program, args, { encoding: 'buffer', maxBuffer: maxBytes })).stdout;

const digestOf = (content: Buffer): string => `sha256:${createHash('sha256').update(content).digest('hex')}`;

const image: Artifact = {
  // The digest of an image is that of its manifest, which names the digests of all its parts.
  isOf: async (manifest, file) =>
    digestOf(manifest) === digestOf(await run('skopeo', ['inspect', '--raw', `oci-archive:${file}`])),
  push: ({ file, reference, plainHttp }) =>
    run('skopeo', [
      ...['copy', '--all', '--preserve-digests', ...(plainHttp ? ['--dest-tls-verify=false'] : [])],
      ...[`oci-archive:${file}`, `docker://${reference}`],
    ]),
};

const chart: Artifact = {
  // The manifest also has the time at which Helm pushed it.
  isOf: async (manifest, file) => {
    const { layers } = JSON.parse(manifest.toString()) as { readonly layers?: readonly { readonly digest?: string }[] };
    const digest = digestOf(await readFile(file));
    return layers?.some((layer) => layer.digest === digest) ?? false;
  },
  // Helm adds the chart's name and version.
  push: ({ file, reference, plainHttp }) =>
    run('helm', [
      ...['push', file, `oci://${reference.slice(0, reference.lastIndexOf('/'))}`],
      ...(plainHttp ? ['--plain-http'] : []),
    ]),
};

/** Returns the manifest of a reference, or undefined if the registry does not have it. */
async function published({ reference, plainHttp }: Publication): Promise<Buffer | undefined> {
  const flags = plainHttp ? ['--tls-verify=false'] : [];
  try {
    return await run('skopeo', ['inspect', '--raw', ...flags, `docker://${reference}`]);
  } catch (error) {
    // After any other error, for example of the network, it is unknown whether the version is published.
    if (/manifest unknown|name unknown/.test(String((error as { readonly stderr?: Buffer }).stderr))) return undefined;
    throw error;
  }
}

/**
 * Publishes the file under the reference, unless it is published there.
 *
 * @returns the digest of the manifest in the registry
 * @throws PublishError if the reference has other content
 */
async function publishOnce({ isOf, push }: Artifact, publication: Publication): Promise<string> {
  if ((await published(publication)) === undefined) await push(publication);
  const { file, reference } = publication;
  const manifest = await published(publication);
  if (manifest === undefined) throw new PublishError(`The registry does not have ${reference} after the push.`);
  if (await isOf(manifest, file)) return digestOf(manifest);
  throw new PublishError(
    `${reference} is published with other content than ${file}, and users may have pulled it: release another version.`,
  );
}

async function main([kind, file, reference, flag]: readonly string[]): Promise<string> {
  const artifact = kind === 'image' ? image : kind === 'chart' ? chart : undefined;
  if (artifact === undefined || file === undefined || reference === undefined)
    throw new PublishError('Usage: node tools/release/publish-once.ts image|chart FILE REGISTRY/REPOSITORY:VERSION');
  return publishOnce(artifact, { file, reference, plainHttp: flag === '--plain-http' });
}

if (import.meta.main) {
  try {
    console.log(await main(process.argv.slice(2)));
  } catch (error) {
    if (!(error instanceof PublishError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}
