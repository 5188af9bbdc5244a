import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { defaults, type GivenNames, InvalidNameError, namesOf, replacements } from './names.ts';

const ownFolder = join(import.meta.dirname, '..');
const templateFolder = join(ownFolder, 'template');

/** An operator that has been created. */
export interface CreatedOperator {
  /** The absolute path of its folder. */
  readonly folder: string;
  /** The paths of its files, relative to the folder. */
  readonly files: readonly string[];
}

/**
 * Creates an operator in a new or empty folder: its code, tests, image, chart and workflow. Installs nothing.
 *
 * @throws InvalidNameError if a name is invalid, or if the folder has files other than `.git`. Nothing is written then.
 */
export async function createOperator(given: GivenNames): Promise<CreatedOperator> {
  const folder = resolve(given.folder ?? defaults.folder);
  const names = replacements(namesOf(basename(folder), given));
  await requireEmpty(folder);
  const versions = await pinnedVersions();
  const files: string[] = [];
  for (const source of await templateFiles()) {
    const text = await readFile(join(templateFolder, source), 'utf8');
    const path = withNames(targetOf(source), names);
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), withVersions(withNames(text, names), versions));
    files.push(path);
  }
  return { folder, files: files.sort() };
}

async function requireEmpty(folder: string): Promise<void> {
  const entries = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    if (error.code === 'ENOTDIR') return [basename(folder)];
    throw error;
  });
  const [other] = entries.filter((entry) => entry !== '.git');
  if (other !== undefined)
    throw new InvalidNameError(`folder: got ${JSON.stringify(folder)}, takes a new or empty folder: it has ${other}`);
}

async function templateFiles(): Promise<readonly string[]> {
  const entries = await readdir(templateFolder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(templateFolder.length + 1));
}

/** npm packs no `.gitignore`, and tools would use the other files as their own. So their names begin with `_` here. */
const targetOf = (path: string): string => path.replace(/^_/, '');

const withNames = (text: string, names: ReadonlyMap<string, string>): string =>
  text.replaceAll(
    new RegExp([...names.keys()].join('|').replaceAll('.', '\\.'), 'g'),
    (name) => names.get(name) ?? name,
  );

/** Replaces `*`, which stands for a version in a package.json, a Dockerfile and a workflow. */
function withVersions(text: string, versions: ReadonlyMap<string, string>): string {
  return text.replaceAll(/(?<=([-\w@/.]+)(?:": "|[:@]))\*(?=[\s"])/g, (_, name) => {
    const version = versions.get(name);
    if (version === undefined) throw new Error(`versions.json has no version of ${name}`);
    return version;
  });
}

/** The versions that the operator is created with. The project's own packages have the version of this package. */
async function pinnedVersions(): Promise<ReadonlyMap<string, string>> {
  const read = async (file: string) => JSON.parse(await readFile(join(ownFolder, file), 'utf8'));
  const { version } = (await read('package.json')) as { readonly version: string };
  const others = (await read('versions.json')) as Readonly<Record<string, string>>;
  const own = ['cli', 'runtime', 'testing'].map((name) => [`@echoperator/${name}`, version] as const);
  return new Map([...own, ...Object.entries(others)]);
}
