import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Binary, VersionOf } from './catalogue.ts';
import { type GoToolchain, requireGo } from './go-toolchain.ts';

/** A folder of `tools/programs` with a go.mod, and what is built from it. */
export interface Group {
  readonly name: string;
  /** Where its go.mod is. */
  readonly folder: string;
  /** Says all that its programs are made of: another Go, dependency, source or flag is another key. 16 hex digits. */
  readonly key: string;
  /** Arguments of `go build` for one of its programs, without the output. */
  readonly buildArguments: (binary: Binary) => readonly string[];
}

/**
 * Reads a group's folder.
 *
 * @param programsFolder the folder that holds the groups' folders
 * @param binaries the catalogue; those of other groups are passed over
 * @throws GoToolchainError if the machine's Go is older than the group's go.mod wants
 */
export async function readGroup(
  name: string,
  programsFolder: string,
  binaries: readonly Binary[],
  go: GoToolchain,
): Promise<Group> {
  const folder = join(programsFolder, name);
  const files = (await readdir(folder, { recursive: true }))
    .filter((file) => /\.go$|^go\.(mod|sum)$/.test(file))
    .sort();
  const sources = await Promise.all(
    files.map(async (file) => [file, await readFile(join(folder, file), 'utf8')] as const),
  );
  const goMod = sources.find(([file]) => file === 'go.mod')?.[1];
  if (goMod === undefined) throw new Error(`${folder} has no go.mod`);
  requireGo(go, goMod, name);

  const versionOf = (module: string) => requiredVersion(goMod, module, name);
  const buildArguments = (binary: Binary) => goBuild(binary, versionOf);
  const builds = binaries
    .filter((binary) => binary.group === name)
    .map((binary) => [binary.name, ...buildArguments(binary)]);
  const key = createHash('sha256').update(JSON.stringify({ go, sources, builds })).digest('hex').slice(0, 16);
  return { name, folder, key, buildArguments };
}

/** -v names each package as it is compiled, for those who watch. */
function goBuild(binary: Binary, versionOf: VersionOf): readonly string[] {
  const stamps = Object.entries(binary.stamp?.(versionOf) ?? {}).map(([variable, value]) => `-X ${variable}=${value}`);
  return [
    'build',
    '-v',
    '-mod=readonly',
    '-trimpath',
    '-buildvcs=false',
    `-tags=${(binary.tags ?? []).join(',')}`,
    `-ldflags=${['-s', '-w', ...stamps].join(' ')}`,
    binary.package,
  ];
}

function requiredVersion(goMod: string, module: string, group: string): string {
  const line = goMod.split('\n').find((text) =>
    text
      .trim()
      .replace(/^require /, '')
      .startsWith(`${module} v`),
  );
  const version = line
    ?.trim()
    .replace(/^require /, '')
    .split(' ')[1];
  if (version === undefined) throw new Error(`tools/programs/${group}/go.mod does not require ${module}`);
  return version;
}
