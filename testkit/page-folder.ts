import { mkdir, mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Creates a folder for the code of a page, which the caller removes. It is inside the repository, so that the code finds
 * its packages, and in a folder that Git, Biome and TypeScript ignore: they may run at the same time.
 */
export async function makePageFolder(): Promise<string> {
  const parent = join(import.meta.dirname, '../dist');
  await mkdir(parent, { recursive: true });
  return mkdtemp(join(parent, 'page-'));
}
