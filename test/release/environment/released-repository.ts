import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { execa } from 'execa';
import { linkPackages } from '../../../tools/link-packages.ts';

const repository = join(import.meta.dirname, '../../..');

const identity = {
  GIT_AUTHOR_NAME: 'Maintainer',
  GIT_AUTHOR_EMAIL: 'maintainer@example.com',
  GIT_COMMITTER_NAME: 'Maintainer',
  GIT_COMMITTER_EMAIL: 'maintainer@example.com',
};

/** A copy of the repository with a remote, in which versions are released. */
export class ReleasedRepository {
  readonly folder: string;
  /** The remote `origin`. */
  readonly origin: string;

  private constructor(folder: string, origin: string) {
    this.folder = folder;
    this.origin = origin;
  }

  /** Copies the files of the work tree that git does not ignore. The branch is `main`, as the remote's. */
  static async copy(to: string): Promise<ReleasedRepository> {
    const [folder, origin] = [join(to, 'repository'), join(to, 'origin.git')];
    const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
    const { stdout } = await execa('git', list, { cwd: repository });
    for (const path of stdout.split('\0').filter((each) => each !== '')) {
      await mkdir(dirname(join(folder, path)), { recursive: true });
      // Git also lists files that are deleted and not yet committed.
      await cp(join(repository, path), join(folder, path)).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error;
      });
    }
    await linkPackages(folder);
    const copied = new ReleasedRepository(folder, origin);
    await execa('git', ['init', '--quiet', '--bare', '--initial-branch=main', origin]);
    await copied.git('init', '--quiet', '--initial-branch=main');
    await copied.git('remote', 'add', 'origin', origin);
    await copied.#commitAndPush('Everything before the release');
    return copied;
  }

  async git(...args: readonly string[]): Promise<string> {
    return (await execa('git', args, { cwd: this.folder, env: identity })).stdout;
  }

  /** Adds a line to the changelog's unreleased changes. */
  async addChange(line: string): Promise<void> {
    const file = join(this.folder, 'CHANGELOG.md');
    const text = await readFile(file, 'utf8');
    await writeFile(file, text.replace('## [Unreleased]\n', `## [Unreleased]\n\n### Changed\n\n- ${line}\n`));
    await this.#commitAndPush(line);
  }

  /** Makes the version's commit and tag, as the page on releasing says, and pushes both. */
  async release(version: string): Promise<void> {
    await execa('npm', ['version', version], { cwd: this.folder, env: identity });
    await this.git('push', '--quiet', '--follow-tags', 'origin', 'main');
  }

  async #commitAndPush(message: string): Promise<void> {
    await this.git('add', '--all');
    await this.git('commit', '--quiet', '--message', message);
    await this.git('push', '--quiet', 'origin', 'main');
  }
}
