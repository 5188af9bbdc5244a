/** Describes the machine and the versions of a run. */
import { readFile } from 'node:fs/promises';
import { arch, availableParallelism, cpus, release, totalmem, type } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { ensureBinaries } from '../tools/programs/index.ts';
import type { OperatorName } from './operators.ts';

const repository = join(import.meta.dirname, '..');

export function machine(): string {
  const processor = cpus()[0]?.model ?? 'unknown processor';
  return `${availableParallelism()} × ${processor}, ${(totalmem() / 1e9).toFixed(0)} GB of memory, ${type()} ${release()} ${arch()}`;
}

/** Returns the versions of the cluster, Node, this repository and the peers that take part. */
export async function versions(operators: readonly OperatorName[]): Promise<Readonly<Record<string, string>>> {
  const binaries = await ensureBinaries(['etcd', 'kube-apiserver']);
  const versionOf = async (program: string, args: readonly string[]): Promise<string> => {
    const { stdout } = await execa(program, args);
    return /\d+\.\d+(\.\d+)?/.exec(stdout)?.[0] ?? stdout;
  };
  const found: Record<string, string> = {
    kubernetes: await versionOf(binaries.get('kube-apiserver') ?? '', ['--version']),
    etcd: await versionOf(binaries.get('etcd') ?? '', ['--version']),
    node: process.versions.node,
    echoperator: await revision(),
  };
  for (const name of operators) Object.assign(found, await peers[name]());
  return found;
}

const pinned = async (file: string, pattern: RegExp): Promise<string> => {
  const version = pattern.exec(await readFile(join(repository, file), 'utf8'))?.[1];
  if (version === undefined) throw new Error(`${file} pins no version: nothing matches ${pattern}`);
  return version;
};

const peers: Readonly<Record<OperatorName, () => Promise<Readonly<Record<string, string>>>>> = {
  echoperator: async () => ({}),
  unrecorded: async () => ({}),
  before: async () => ({}),
  'controller-runtime-ryw': async () => ({}),
  'controller-runtime': async () => ({
    'controller-runtime': await pinned(
      'bench/peers/controller-runtime/go.mod',
      /^\s*sigs\.k8s\.io\/controller-runtime v(\S+)$/m,
    ),
    go: /go(\d\S*)/.exec((await execa('go', ['version'])).stdout)?.[1] ?? 'unknown',
  }),
  'kube-rs': async () => ({
    'kube-rs': await pinned('bench/peers/kube-rs/Cargo.toml', /^kube = \{ version = "=([^"]+)"/m),
    rust: /rustc (\S+)/.exec((await execa('rustc', ['--version'])).stdout)?.[1] ?? 'unknown',
  }),
  'client-node': async () => ({
    'client-node': await pinned('package.json', /"@kubernetes\/client-node": "([^"]+)"/),
  }),
};

/** What a run itself writes: the next part must not take it for a change of the code. */
const written = ['docs/benchmark', 'docs/benchmark.md'];

/**
 * Returns the commit, with a plus if the work tree differs from it in more than the page. Outside a clone: `unknown`.
 */
async function revision(): Promise<string> {
  const git = (...args: readonly string[]) => execa('git', args, { cwd: repository, reject: false });
  const { stdout: commit, exitCode } = await git('rev-parse', '--short=10', 'HEAD');
  if (exitCode !== 0) return 'unknown';
  const changed = await git('diff', '--quiet', 'HEAD', '--', '.', ...written.map((path) => `:!${path}`));
  return changed.exitCode === 0 ? commit : `${commit}+`;
}
