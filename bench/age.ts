/**
 * Tells how many commits have changed src/ or packages/ since the oldest part of docs/benchmark.md was measured, and
 * exits with 1 if there are any:
 *
 *     node bench/age.ts
 */
import { join } from 'node:path';
import { execa } from 'execa';
import { besidePage } from './benchmark-page.ts';
import { type Results, readResults } from './results.ts';

const repository = join(import.meta.dirname, '..');

/**
 * The clone does not have the measured commit, or the measured code was not committed. The message names the revision.
 */
export class UnknownAgeError extends Error {
  override readonly name = 'UnknownAgeError';
}

/**
 * Returns how many commits have changed src/ or packages/ since the oldest part was measured.
 *
 * @param folder of the clone. Default: this one
 * @throws UnknownAgeError
 */
export async function ageOf({ parts }: Pick<Results, 'parts'>, folder = repository): Promise<number> {
  const measured = Object.values(parts).map(({ versions: { echoperator = 'unknown' } }) => echoperator);
  const ages = await Promise.all(measured.map((revision) => commitsSince(revision, folder)));
  return Math.max(...ages);
}

async function commitsSince(revision: string, folder: string): Promise<number> {
  // machine.ts marks a work tree with changes by a plus.
  const args = ['rev-list', '--count', `${revision}..HEAD`, '--', 'src', 'packages'];
  const { stdout, exitCode } = await execa('git', args, { cwd: folder, reject: false });
  if (revision.endsWith('+') || exitCode !== 0) {
    throw new UnknownAgeError(`the measured revision ${revision} is no commit of this clone: measure again`);
  }
  return Number(stdout);
}

async function main(): Promise<void> {
  try {
    const results = await readResults(join(repository, 'docs', besidePage));
    const age = await ageOf(results);
    console.log(`since the oldest part of docs/benchmark.md, ${age} commits have changed src/ or packages/`);
    if (age > 0) process.exitCode = 1;
  } catch (error) {
    if (!(error instanceof UnknownAgeError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}

// No top-level await: jest cannot load a module that has it.
if (import.meta.main) void main();
