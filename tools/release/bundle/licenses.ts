import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Metafile } from 'esbuild';

/** Returns the licences of all packages in the bundle, which require that copies include them. */
export async function licenses(repository: string, metafile: Metafile): Promise<string> {
  const own = await readFile(join(repository, 'LICENSE'), 'utf8');
  const sections = await Promise.all(bundledPackages(metafile).map((folder) => section(repository, folder)));
  return [own.trim(), 'This program contains the following packages.', ...sections]
    .join(`\n\n${'-'.repeat(80)}\n\n`)
    .concat('\n');
}

/** Returns folders such as node_modules/pino, also nested ones. */
function bundledPackages(metafile: Metafile): readonly string[] {
  const folders = Object.values(metafile.outputs)
    .flatMap((output) => Object.entries(output.inputs))
    .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
    .map(([path]) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0])
    .filter((folder) => folder !== undefined);
  return [...new Set(folders)].sort();
}

async function section(repository: string, folder: string): Promise<string> {
  const manifest = JSON.parse(await readFile(join(repository, folder, 'package.json'), 'utf8')) as {
    readonly name: string;
    readonly version: string;
    readonly license?: string;
  };
  const file = (await readdir(join(repository, folder))).find((name) => /^(licen[cs]e|copying)/i.test(name));
  const text = file === undefined ? '' : `\n\n${(await readFile(join(repository, folder, file), 'utf8')).trim()}`;
  return `${manifest.name} ${manifest.version} (${manifest.license ?? 'see its licence'})${text}`;
}
