import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { bundleOperatorIn, sourcesOf } from '../testkit/shipped-program.ts';
import { clientNodePeer, controllerRuntimePeer, kubeRsPeer } from './peers/programs.ts';

/** Ours is first, because ratios are ours divided by another's. */
export const operatorNames = [
  'echoperator',
  'controller-runtime',
  'controller-runtime-ryw',
  'kube-rs',
  'client-node',
  'unrecorded',
] as const;

export type BuiltName = (typeof operatorNames)[number];

/** `before` is the other one of two compared bundles of our operator. */
export type OperatorName = BuiltName | 'before';

/** A compared operator, and how to start it. */
export interface Operator {
  readonly name: OperatorName;
  readonly command: readonly [program: string, ...args: string[]];
  /** Environment variables in addition to those of all operators. */
  readonly environment: Readonly<Record<string, string>>;
}

/** Builds the operators. Programs that are not cached for the user go into `folder`. */
export async function buildOperators(
  names: readonly BuiltName[],
  folder: string,
  signal: AbortSignal,
): Promise<readonly Operator[]> {
  const operators: Operator[] = [];
  for (const name of names) operators.push({ name, ...(await build[name](folder, signal)) });
  return operators;
}

/**
 * Builds two bundles of our operator, `before` and `echoperator`. Each is of a git revision, or of the sources in a
 * folder, which need not be committed.
 */
export async function buildBundles(before: string, after: string, folder: string): Promise<readonly Operator[]> {
  return [
    { name: 'echoperator', ...recorded(await bundled(after, join(folder, 'echoperator')), folder) },
    { name: 'before', ...recorded(await bundled(before, join(folder, 'before')), folder) },
  ];
}

type Unnamed = Omit<Operator, 'name'>;
type Build = (folder: string, signal: AbortSignal) => Promise<Unnamed>;

const repository = join(import.meta.dirname, '..');

const build: Readonly<Record<BuiltName, Build>> = {
  echoperator: async (folder) => recorded(await bundled(repository, join(folder, 'echoperator')), folder),
  'controller-runtime': async (_, signal) => ({ command: [await controllerRuntimePeer(signal)], environment: {} }),
  // With its option that a read waits until the cache has observed the writes before it.
  'controller-runtime-ryw': async (_, signal) => ({
    command: [await controllerRuntimePeer(signal)],
    environment: { READ_YOUR_WRITES: 'true' },
  }),
  'kube-rs': async (_, signal) => ({ command: [await kubeRsPeer(signal)], environment: {} }),
  'client-node': async (folder) => ({
    command: [process.execPath, '--expose-gc', await clientNodePeer(folder)],
    environment: { NODE_ENV: 'production' },
  }),
  // Our operator without its flight recorder: the comparison with it shows the recorder's cost.
  unrecorded: (folder) => bundled(repository, join(folder, 'unrecorded')),
};

/** @param of a folder with sources, or a git revision */
async function bundled(of: string, folder: string): Promise<Unnamed> {
  const sources = existsSync(join(of, 'src/main.ts')) ? resolve(of) : await sourcesOf(of, folder);
  const { main, nodeFlags } = await bundleOperatorIn(sources, join(folder, 'bundle'));
  return {
    command: [process.execPath, ...nodeFlags, main],
    // The peers have only this controller too.
    environment: { NODE_ENV: 'production', LOG_LEVEL: 'info', CONTROLLERS: 'echo' },
  };
}

/** With the flight recorder, as the chart has it. */
const recorded = ({ command, environment }: Unnamed, folder: string): Unnamed => ({
  command,
  environment: { ...environment, EXPLAIN_DIR: join(folder, 'explain') },
});
