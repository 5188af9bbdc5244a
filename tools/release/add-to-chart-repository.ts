/**
 * Adds a packaged chart to the chart repository, which is the branch `gh-pages` of the git remote `origin`: index.yaml and
 * the packages. Other files of the branch stay. A version that is there with the same content is skipped, and other
 * content is an error. Needs git and Helm, and no installed npm package. Run it in a clone that can push.
 *
 *     node tools/release/add-to-chart-repository.ts PACKAGE.tgz URL      URL: where users find the branch's files
 */
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';

/** The chart cannot be added. */
class ChartRepositoryError extends Error {
  override readonly name = 'ChartRepositoryError';
}

const branch = 'gh-pages';

const run = async (program: string, ...args: readonly string[]): Promise<string> =>
  (await promisify(execFile)(program, args)).stdout;

/** Returns the file's content, or undefined if there is no such file. */
const contentOf = (file: string): Promise<Buffer | undefined> =>
  readFile(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });

/**
 * Checks the branch out into a new folder, or starts it if the remote does not have it. A branch of an earlier attempt
 * that could not be pushed is ignored.
 */
async function checkOut(folder: string): Promise<void> {
  const exists = (await run('git', 'ls-remote', '--heads', 'origin', branch)) !== '';
  if (!exists) {
    await run('git', 'worktree', 'add', '--quiet', '--detach', folder);
    await run('git', '-C', folder, 'switch', '--quiet', '--orphan', `${branch}-${process.pid}`);
    return;
  }
  await run('git', 'fetch', '--quiet', 'origin', branch);
  await run('git', 'worktree', 'add', '--quiet', '--detach', folder, 'FETCH_HEAD');
}

/** @returns whether the package was added. False: the branch had it. */
async function addPackage(file: string, url: string, work: string): Promise<boolean> {
  const pages = join(work, 'pages');
  await checkOut(pages);
  try {
    const name = basename(file);
    const published = await contentOf(join(pages, name));
    if (published !== undefined) {
      if (published.equals(await readFile(file))) return false;
      throw new ChartRepositoryError(`${name} is published with other content than ${file}: release another version.`);
    }
    // Helm would date every package in the folder anew, so the new one is alone.
    const added = join(work, 'chart');
    await mkdir(added);
    await copyFile(file, join(added, name));
    await copyFile(file, join(pages, name));
    await run('helm', 'repo', 'index', added, '--url', url, '--merge', join(pages, 'index.yaml'));
    await rename(join(added, 'index.yaml'), join(pages, 'index.yaml'));
    await run('git', '-C', pages, 'add', name, 'index.yaml');
    const identity = [
      'user.name=github-actions[bot]',
      'user.email=41898282+github-actions[bot]@users.noreply.github.com',
    ];
    const settings = identity.flatMap((setting) => ['-c', setting]);
    await run('git', '-C', pages, ...settings, 'commit', '--quiet', '--message', `Add ${name}`);
    await run('git', '-C', pages, 'push', '--quiet', 'origin', `HEAD:refs/heads/${branch}`);
    return true;
  } finally {
    await run('git', 'worktree', 'remove', '--force', pages);
  }
}

async function main([file, url]: readonly string[]): Promise<void> {
  if (file === undefined || url === undefined)
    throw new ChartRepositoryError('Usage: node tools/release/add-to-chart-repository.ts PACKAGE.tgz URL');
  const work = await mkdtemp(join(tmpdir(), 'chart-repository-'));
  try {
    const added = await addPackage(file, url, work);
    console.log(`${basename(file)} ${added ? 'is added' : 'was there already'}`);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

if (import.meta.main) {
  try {
    await main(process.argv.slice(2));
  } catch (error) {
    if (!(error instanceof ChartRepositoryError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}
