import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bundle } from '../tools/release/index.ts';
import { clientNodePeer, controllerRuntimePeer, kubeRsPeer } from './peers/programs.ts';

/** Ours first: ratios are ours to another's. */
export const operatorNames = ['echoperator', 'controller-runtime', 'kube-rs', 'client-node'] as const;
export type OperatorName = (typeof operatorNames)[number];

/** One of those that are compared, and how it is started. */
export interface Operator {
  readonly name: OperatorName;
  readonly command: readonly [program: string, ...args: string[]];
  /** Environment variables beside those that all of them get. */
  readonly environment: Readonly<Record<string, string>>;
}

const repository = join(import.meta.dirname, '..');

/** Builds these operators; what is not in the user's cache goes into `folder`. */
export async function buildOperators(
  names: readonly OperatorName[],
  folder: string,
  signal: AbortSignal,
): Promise<readonly Operator[]> {
  const operators: Operator[] = [];
  for (const name of names) operators.push({ name, ...(await build[name](folder, signal)) });
  return operators;
}

type Build = (folder: string, signal: AbortSignal) => Promise<Omit<Operator, 'name'>>;

const build: Readonly<Record<OperatorName, Build>> = {
  echoperator: async (folder) => {
    const ours = await bundle({ folder: join(folder, 'echoperator') });
    const image = await imageNode();
    return {
      command: [process.execPath, ...image.arguments, join(ours.folder, 'main.js')],
      // The others do nothing but this either.
      environment: { NODE_ENV: 'production', LOG_LEVEL: 'info', CONTROLLERS: 'echo', ...image.environment },
    };
  },
  'controller-runtime': async (_, signal) => ({ command: [await controllerRuntimePeer(signal)], environment: {} }),
  'kube-rs': async (_, signal) => ({ command: [await kubeRsPeer(signal)], environment: {} }),
  'client-node': async (folder) => ({
    command: [process.execPath, await clientNodePeer(folder)],
    environment: { NODE_ENV: 'production' },
  }),
};

/** What the image has Node started with: the arguments before the program, and the environment variables. */
async function imageNode(): Promise<{ arguments: readonly string[]; environment: Readonly<Record<string, string>> }> {
  const dockerfile = await readFile(join(repository, 'Dockerfile'), 'utf8');
  const entryPoint = /^ENTRYPOINT (\[.*\])$/m.exec(dockerfile)?.[1];
  if (entryPoint === undefined) throw new Error('the Dockerfile has no ENTRYPOINT in the form of a list');
  const [, ...words] = JSON.parse(entryPoint) as string[];
  const program = words.pop();
  if (!program?.endsWith('/main.js')) throw new Error(`the image runs ${program}, not main.js`);
  const options = /^ENV .*\bNODE_OPTIONS="?([^"\n]*)"?$/m.exec(dockerfile)?.[1];
  return { arguments: words, environment: options === undefined ? {} : { NODE_OPTIONS: options } };
}
