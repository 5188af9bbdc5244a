import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Metafile } from 'esbuild';

/** A package whose code is in a bundle. */
export interface BundledPackage {
  /** The folder, such as `node_modules/pino`. It may be nested. */
  readonly folder: string;
  readonly manifest: { readonly name: string; readonly version: string; readonly license?: string };
}

export async function bundledPackages(repository: string, metafile: Metafile): Promise<readonly BundledPackage[]> {
  const folders = Object.values(metafile.outputs)
    .flatMap((output) => Object.entries(output.inputs))
    .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
    .map(([path]) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0])
    .filter((folder) => folder !== undefined);
  return Promise.all(
    [...new Set(folders)].sort().map(async (folder) => {
      const { name, version, license } = JSON.parse(await readFile(join(repository, folder, 'package.json'), 'utf8'));
      return { folder, manifest: { name, version, license } };
    }),
  );
}

/** Returns the licences of the packages, which require that copies include them. */
export async function licenses(repository: string, packages: readonly BundledPackage[]): Promise<string> {
  const own = await readFile(join(repository, 'LICENSE'), 'utf8');
  const sections = await Promise.all(packages.map((each) => section(repository, each)));
  return [own.trim(), 'This program contains the following packages.', ...sections]
    .join(`\n\n${'-'.repeat(80)}\n\n`)
    .concat('\n');
}

async function section(repository: string, { folder, manifest }: BundledPackage): Promise<string> {
  const file = (await readdir(join(repository, folder))).find((name) => /^(licen[cs]e|copying)/i.test(name));
  const text = file === undefined ? '' : `\n\n${(await readFile(join(repository, folder, file), 'utf8')).trim()}`;
  return `${manifest.name} ${manifest.version} (${manifest.license ?? 'see its licence'})${text}`;
}

/**
 * Writes the manifest of each package. Tools that list the packages of an image, for an SBOM or a search for known
 * vulnerabilities, look for files of this name; they see no packages in a bundle.
 *
 * @param into not named `node_modules`, so that Node never resolves an import to these folders without code
 */
export async function writeManifests(into: string, packages: readonly BundledPackage[]): Promise<void> {
  for (const { folder, manifest } of packages) {
    await mkdir(join(into, folder), { recursive: true });
    await writeFile(join(into, folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  }
}
