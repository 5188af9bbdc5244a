/**
 * Builds everything of a release except the images: the release notes (notes.md), the chart's package, and the npm packages
 * in `npm/`, whose names begin with their place in the order of publication. Needs Helm.
 *
 *     node tools/release/pack.ts VERSION FOLDER      fails if the repository has another version
 */
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { execa } from 'execa';
import { buildPackages, publishedPackages } from './npm-package.ts';
import { notesOf, ReleaseError } from './release-notes.ts';

const repository = join(import.meta.dirname, '../..');

/** Packs the built packages into the folder. */
async function packPackages(built: string, folder: string): Promise<void> {
  await mkdir(folder);
  for (const [index, name] of publishedPackages.entries()) {
    const args = ['pack', join(built, name), '--silent', '--ignore-scripts', '--pack-destination', folder];
    const { stdout } = await execa('npm', args);
    await rename(join(folder, stdout.trim()), join(folder, `${index + 1}-${stdout.trim()}`));
  }
}

async function pack(version: string, folder: string): Promise<void> {
  const notes = await notesOf(version);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'notes.md'), `${notes}\n`);
  await execa('helm', ['package', join(repository, 'charts/echoperator'), '--destination', folder]);
  const built = join(repository, 'dist/packages');
  await buildPackages(built);
  await packPackages(built, join(folder, 'npm'));
}

if (import.meta.main) {
  const [version, folder] = process.argv.slice(2);
  try {
    if (version === undefined || folder === undefined)
      throw new ReleaseError('Usage: node tools/release/pack.ts VERSION FOLDER');
    await pack(version, resolve(folder));
  } catch (error) {
    if (!(error instanceof ReleaseError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}
