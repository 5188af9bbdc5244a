import { cp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { linkPackages } from '../../tools/link-packages.ts';

/** A defect to add to a copy of the source, which the kits of `packages/testing`, or unit tests, must find. */
export interface SeededBug {
  /** What is wrong: `PodSet: a deleted pod is not noticed`. */
  readonly name: string;
  /** The path of the file. */
  readonly file: string;
  /** The text to replace. The file has it exactly once. */
  readonly find: string;
  readonly replace: string;
  /** The plans that should fail. */
  readonly plans: Plans;
  /** Why no simulation can find it. Absent if `plans.explore` or `plans.tests` is present. */
  readonly notSimulated?: string;
}

/** Beginnings of the names of plans. */
export interface Plans {
  /** Of `make perturb`: `echo/create`. */
  readonly perturb?: readonly string[];
  /** Of `make mutate`: `Echo/message`. */
  readonly mutate?: readonly string[];
  /** Of the unit tests: the files of properties. */
  readonly properties?: readonly string[];
  /** Of a simulation: the names of scenarios. */
  readonly explore?: readonly string[];
  /** Of a simulation: the files of unit tests, if no scenario has the cause. `kinds/echo/echo.test` */
  readonly tests?: readonly string[];
}

const repository = join(import.meta.dirname, '../..');

/** The folders that the plans need. */
const folders = ['src', 'packages', 'test', 'testkit', 'tools'];

/** Returns the text of the bug's file with the bug. @throws Error if the text to replace is not there exactly once */
export async function textWith({
  name,
  file,
  find,
  replace,
}: Pick<SeededBug, 'name' | 'file' | 'find' | 'replace'>): Promise<string> {
  const text = await readFile(join(repository, file), 'utf8');
  const count = text.split(find).length - 1;
  if (count === 1) return text.replace(find, () => replace);
  throw new Error(`${name}: ${file} has the text to replace ${count} times, not once: ${find}`);
}

/** A copy of the repository's source, with a bug. */
export class SourceCopy implements AsyncDisposable {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  /** @param bug undefined: without a bug */
  static async make(folder: string, bug: SeededBug | undefined): Promise<SourceCopy> {
    for (const each of folders) await cp(join(repository, each), join(folder, each), { recursive: true });
    for (const file of ['package.json', 'jest.config.js', 'tsconfig.json'])
      await cp(join(repository, file), join(folder, file));
    await linkPackages(folder);
    if (bug !== undefined) await writeFile(join(folder, bug.file), await textWith(bug));
    return new SourceCopy(folder);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }
}
