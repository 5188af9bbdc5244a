import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { dieWithParent } from '../../../testkit/die-with-parent.ts';
import { buildPackages, type PublishedPackage, publishedPackages } from '../../../tools/release/npm-package.ts';

const repository = join(import.meta.dirname, '../../..');

/** The packed packages, a file each. */
export type Tarballs = Readonly<Record<PublishedPackage, string>>;

/** Builds the packages in the folder's `packages`, and packs them as they are published. */
export async function packTarballs(folder: string): Promise<Tarballs> {
  const built = join(folder, 'packages');
  await buildPackages(built);
  const pack = async (name: PublishedPackage) => {
    const { stdout } = await execa('npm', ['pack', '--silent', '--pack-destination', folder, join(built, name)]);
    return [name, join(folder, stdout.trim())] as const;
  };
  return Object.fromEntries(await Promise.all(publishedPackages.map(pack))) as Tarballs;
}

/** A folder beside the repository, not in it: what a project there imports it has installed itself. */
export class EmptyProject {
  readonly folder: string;
  readonly #environment: Readonly<Record<string, string>>;

  private constructor(folder: string, environment: Readonly<Record<string, string>>) {
    this.folder = folder;
    this.#environment = environment;
  }

  /** @param environment for what runs in it; `PATH` says which Node that is. */
  static async make(folder: string, environment: Readonly<Record<string, string>>): Promise<EmptyProject> {
    await mkdir(folder, { recursive: true });
    return new EmptyProject(folder, environment);
  }

  /** A project in a folder of this one, with the same environment and the given variables. */
  async subfolder(name: string, environment: Readonly<Record<string, string>> = {}): Promise<EmptyProject> {
    return EmptyProject.make(join(this.folder, name), { ...this.#environment, ...environment });
  }

  async write(name: string, text: string): Promise<void> {
    await writeFile(join(this.folder, name), text);
  }

  async read(name: string): Promise<string> {
    return readFile(join(this.folder, name), 'utf8');
  }

  /** Runs a command line, as somebody would type it there. @throws execa's error, with what was printed, if it fails */
  async run(command: string): Promise<string> {
    const { stdout } = await execa('bash', ['-o', 'pipefail', '-c', command], this.#options());
    return stdout;
  }

  /** Starts a program and does not wait for its end. It is the test's to end. */
  start(program: string, args: readonly string[], environment: Readonly<Record<string, string>> = {}) {
    const [file, words] = dieWithParent(program, args);
    return execa(file, words, {
      ...this.#options(environment),
      reject: false,
      // By default, execa kills a process 5 s after SIGTERM.
      forceKillAfterDelay: false,
      all: true,
    });
  }

  /** What TypeScript has to say of the files here under strict options; empty if nothing. */
  async typeCheck(compilerOptions: object): Promise<string> {
    const strict = { strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true };
    const config = {
      compilerOptions: {
        ...strict,
        target: 'es2024',
        lib: ['es2024', 'esnext.disposable'],
        types: ['node'],
        skipLibCheck: false,
        noEmit: true,
        allowImportingTsExtensions: true,
        ...compilerOptions,
      },
      include: ['*.ts'],
    };
    return this.typeCheckWith(JSON.stringify(config));
  }

  /** What the repository's own TypeScript has to say of the files here; empty if nothing. */
  async typeCheckWith(tsconfig: string): Promise<string> {
    await this.write('tsconfig.json', tsconfig);
    const tsc = join(repository, 'node_modules/.bin/tsc');
    const { stdout } = await execa(tsc, ['--project', this.folder, '--pretty', 'false'], { reject: false });
    return stdout;
  }

  #options(environment: Readonly<Record<string, string>> = {}) {
    return { cwd: this.folder, env: { ...this.#environment, ...environment }, extendEnv: false } as const;
  }
}
