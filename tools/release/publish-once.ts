/**
 * Publishes a version once: what is published is never replaced. So a failed release can be repeated: what is published with
 * the same content is skipped, and other content under the same version is an error. Needs no installed npm package.
 *
 *     node tools/release/publish-once.ts image ARCHIVE.tar REGISTRY/REPOSITORY:VERSION      an OCI archive; needs skopeo
 *     node tools/release/publish-once.ts chart PACKAGE.tgz REGISTRY/REPOSITORY:VERSION      a package of `helm package`; needs
 *                                                                                           skopeo and Helm
 *     node tools/release/publish-once.ts npm PACKAGE.tgz...                                 packages of `npm pack`, in this order
 *
 * For an image or a chart it prints the digest of the version in the registry, and for npm packages a line for each. With
 * --plain-http as the last argument the registry of an image or a chart has no TLS. With --provenance as the last argument
 * npm publishes a statement of where the packages were built. The registry and the token for npm come from its configuration.
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

/** What `npm view` says of a version. */
interface NpmVersion {
  readonly integrity?: string;
}

/** Returns a packed package's name and version. */
async function npmPackageOf(file: string): Promise<{ readonly name: string; readonly version: string }> {
  return JSON.parse(
    (await run('tar', ['--extract', '--to-stdout', '--file', file, 'package/package.json'])).toString(),
  );
}

/** Returns the version in npm's registry, or undefined if the registry does not have it. */
async function publishedOnNpm(name: string, version: string): Promise<NpmVersion | undefined> {
  try {
    // Not from npm's cache, which an earlier look may have filled. The configuration may silence npm, whose error is read.
    const flags = ['--json', '--prefer-online', '--loglevel=error'];
    const output = await run('npm', ['view', `${name}@${version}`, 'dist', ...flags]);
    return output.length === 0 ? undefined : JSON.parse(output.toString());
  } catch (error) {
    // After any other error, for example of the network, it is unknown whether the version is published.
    if (String((error as { readonly stderr?: Buffer }).stderr).includes('E404')) return undefined;
    throw error;
  }
}

/**
 * Publishes a packed package, unless its version is published. The tag of a prerelease is `next`, so that it is not what
 * `npm install` chooses.
 *
 * @throws PublishError if the version has other content
 */
async function publishNpmOnce(file: string, flags: readonly string[]): Promise<string> {
  const { name, version } = await npmPackageOf(file);
  const found = await publishedOnNpm(name, version);
  if (found !== undefined) {
    const integrity = `sha512-${createHash('sha512')
      .update(await readFile(file))
      .digest('base64')}`;
    if (found.integrity === integrity) return `${name}@${version} is published already`;
    throw new PublishError(
      `${name}@${version} is published with other content than ${file}, and npm takes no version twice: release another version.`,
    );
  }
  const tag = version.includes('-') ? 'next' : 'latest';
  await run('npm', [
    'publish',
    file,
    '--ignore-scripts',
    '--access=public',
    `--tag=${tag}`,
    '--loglevel=error',
    ...flags,
  ]);
  return `published ${name}@${version} as ${tag}`;
}

const usage = `Usage: node tools/release/publish-once.ts image|chart FILE REGISTRY/REPOSITORY:VERSION [--plain-http]
       node tools/release/publish-once.ts npm FILE... [--provenance]`;

async function main([kind, ...args]: readonly string[]): Promise<void> {
  const flags = args.filter((argument) => argument.startsWith('--'));
  const [file, ...rest] = args.filter((argument) => !argument.startsWith('--'));
  if (kind === 'npm' && file !== undefined) {
    for (const each of [file, ...rest]) console.log(await publishNpmOnce(each, flags));
    return;
  }
  const artifact = kind === 'image' ? image : kind === 'chart' ? chart : undefined;
  const [reference] = rest;
  if (artifact === undefined || file === undefined || reference === undefined) throw new PublishError(usage);
  console.log(await publishOnce(artifact, { file, reference, plainHttp: flags.includes('--plain-http') }));
}

if (import.meta.main) {
  try {
    await main(process.argv.slice(2));
  } catch (error) {
    if (!(error instanceof PublishError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}
