import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import type { Output } from '../subcommand.ts';

/** Contents by path, relative to a folder. */
export type Files = ReadonlyMap<string, string>;

/**
 * Makes the files of a folder equal to the wanted ones, or checks that they are. Prints each file that it writes,
 * removes, or finds different.
 *
 * @param files.wanted the content that each file must have.
 * @param files.present the present files. One that is not wanted is removed, so list only files that are generated.
 * @param options.check writes nothing.
 * @param options.command what updates the files, for the message of a check.
 * @returns the exit code: 1 if `check` finds a difference.
 */
export async function writeFiles(
  folder: string,
  { wanted, present }: { readonly wanted: Files; readonly present: Files },
  { check, command, output }: { readonly check: boolean; readonly command: string; readonly output: Output },
): Promise<number> {
  const different = [...new Set([...wanted.keys(), ...present.keys()])].filter(
    (path) => wanted.get(path) !== present.get(path),
  );
  for (const path of different) {
    const content = wanted.get(path);
    if (check) {
      output.error(`${path} ${content === undefined ? 'must not exist' : 'is out of date'}: run \`${command}\``);
      continue;
    }
    const file = resolve(folder, path);
    if (content === undefined) await rm(file);
    else await mkdir(dirname(file), { recursive: true }).then(() => writeFile(file, content));
    output.out(`${content === undefined ? 'removed' : 'wrote'} ${path}`);
  }
  return check && different.length > 0 ? 1 : 0;
}
