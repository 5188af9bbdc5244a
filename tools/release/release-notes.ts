/**
 * Prints the section of CHANGELOG.md for a version. Fails if the repository has another version.
 *
 *     node tools/release/release-notes.ts 1.2.3
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';

/** The repository cannot be released as this version. */
export class ReleaseError extends Error {
  override readonly name = 'ReleaseError';
}

/**
 * Returns the body of the changelog's section for a version, without its heading and without the links at the end of
 * the file.
 *
 * @throws ReleaseError if the section is missing or empty
 */
export function sectionOf(changelog: string, version: string): string {
  const lines = changelog.split('\n');
  const start = lines.findIndex((line) => line.startsWith(`## [${version}]`));
  if (start === -1) throw new ReleaseError(`CHANGELOG.md has no section "## [${version}]".`);
  const rest = lines.slice(start + 1);
  const end = rest.findIndex((line) => /^## |^\[[^\]]+\]: /.test(line));
  const body = (end === -1 ? rest : rest.slice(0, end)).join('\n').trim();
  if (body === '') throw new ReleaseError(`CHANGELOG.md has an empty section for ${version}.`);
  return body;
}

/** @throws ReleaseError that names every file with another version */
export function checkVersions(versions: Readonly<Record<string, unknown>>, version: string): void {
  const others = Object.entries(versions).filter(([, found]) => found !== version);
  if (others.length === 0) return;
  const list = others.map(([file, found]) => `${file} has ${String(found)}`).join(', ');
  throw new ReleaseError(`The release is ${version}, but ${list}.`);
}

/** Returns the changelog's section for the repository's version. @throws ReleaseError if the repository has another version */
export async function notesOf(version: string): Promise<string> {
  const read = (file: string): Promise<string> => readFile(join(import.meta.dirname, '../..', file), 'utf8');
  const manifest = JSON.parse(await read('package.json')) as { readonly version?: unknown };
  const chart = parse(await read('charts/echoperator/Chart.yaml')) as {
    readonly version?: unknown;
    readonly appVersion?: unknown;
  };
  checkVersions(
    {
      'package.json': manifest.version,
      'Chart.yaml version': chart.version,
      'Chart.yaml appVersion': chart.appVersion,
    },
    version,
  );
  return sectionOf(await read('CHANGELOG.md'), version);
}

if (import.meta.main) {
  try {
    const [version] = process.argv.slice(2);
    if (version === undefined) throw new ReleaseError('Usage: node tools/release/release-notes.ts VERSION');
    console.log(await notesOf(version));
  } catch (error) {
    if (!(error instanceof ReleaseError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}
