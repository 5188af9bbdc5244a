/**
 * Builds the cluster's programs that are not in the user's cache, and prints their paths.
 *
 *     node tools/programs/main.ts                        all programs
 *     node tools/programs/main.ts etcd,kube-apiserver    only these; blanks separate them too
 *
 * With etcd and kube-apiserver it also prints the command that sets `KUBEBUILDER_ASSETS` to a folder with them.
 *
 * Exits with 0 on success, 1 if a build fails, 2 for an unknown name, 128 + n after signal n.
 */

import { abortOnInterrupt, exitCodeOf } from '../abort-on-interrupt.ts';
import { ensureBinaries, ensureBinFolder } from './build.ts';
import { type BinaryName, catalogue } from './catalogue.ts';
import { BuildError } from './go.ts';

/** The programs that the testing kit's API server, and envtest, need in `KUBEBUILDER_ASSETS`. */
const assets = ['etcd', 'kube-apiserver'] as const;

const all = catalogue.map(({ name }) => name);

function isBinaryName(name: string): name is BinaryName {
  return (all as readonly string[]).includes(name);
}

async function main(words: readonly string[]): Promise<number> {
  const args = words.flatMap((word) => word.split(',')).filter((name) => name !== '');
  if (args.includes('--help')) {
    console.log(`Usage: node tools/programs/main.ts [PROGRAM[,PROGRAM]…]\n\nPrograms: ${all.join(', ')}`);
    return 0;
  }
  const names = args.filter(isBinaryName);
  if (names.length < args.length) {
    const unknown = args.filter((name) => !isBinaryName(name));
    console.error(`unknown programs: ${unknown.join(', ')}. The programs are ${all.join(', ')}.`);
    return 2;
  }
  const signal = abortOnInterrupt();
  try {
    const paths = await ensureBinaries(names.length > 0 ? names : all, { signal });
    const width = Math.max(...[...paths.keys()].map((name) => name.length));
    for (const [name, path] of paths) console.log(`${name.padEnd(width)}  ${path}`);
    if (assets.every((name) => paths.has(name)))
      console.log(`export KUBEBUILDER_ASSETS=${await ensureBinFolder(assets, { signal })}`);
    return 0;
  } catch (error) {
    if (signal.aborted) {
      console.error('interrupted: the programs built so far are kept');
      return exitCodeOf(signal.reason as NodeJS.Signals);
    }
    if (error instanceof BuildError) {
      console.error(error.message);
      return 1;
    }
    throw error;
  }
}

process.exitCode = await main(process.argv.slice(2));
