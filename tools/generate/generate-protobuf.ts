/** Generates the pet store's protobuf code with buf. Needs no network, because the plugin is an npm package. */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { execa } from 'execa';

const repository = join(import.meta.dirname, '../..');
const wire = join(repository, 'packages/petstore/src/wire');

/** The folder of the generated files. It contains nothing else. */
export const wireFolder = 'packages/petstore/src/wire/generated';

/** Returns the content of each generated file by its path in the repository. Does not write to the repository. */
export async function wireFiles(): Promise<ReadonlyMap<string, string>> {
  const folder = await mkdtemp(join(tmpdir(), 'petstore-wire-'));
  try {
    const env = { BUF_CACHE_DIR: join(folder, 'cache') };
    const options = { cwd: wire, preferLocal: true, localDir: repository, env } as const;
    await execa('buf', ['generate', '--output', folder], options);
    return await filesIn(join(folder, 'generated'), wireFolder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Reads the files of a folder, by their paths relative to it with the prefix `as`. */
export async function filesIn(folder: string, as: string): Promise<ReadonlyMap<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const found = new Map<string, string>();
  for (const entry of entries.filter((each) => each.isFile())) {
    const path = join(entry.parentPath, entry.name);
    found.set(join(as, relative(folder, path)), await readFile(path, 'utf8'));
  }
  return found;
}
