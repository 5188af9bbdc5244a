import { join } from 'node:path';
import { nodeFlagsOf } from '../testkit/shipped-program.ts';
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
    return {
      command: [process.execPath, ...(await nodeFlagsOf('operator')), join(ours.folder, 'main.js')],
      // The others do nothing but this either.
      environment: { NODE_ENV: 'production', LOG_LEVEL: 'info', CONTROLLERS: 'echo' },
    };
  },
  'controller-runtime': async (_, signal) => ({ command: [await controllerRuntimePeer(signal)], environment: {} }),
  'kube-rs': async (_, signal) => ({ command: [await kubeRsPeer(signal)], environment: {} }),
  'client-node': async (folder) => ({
    command: [process.execPath, await clientNodePeer(folder)],
    environment: { NODE_ENV: 'production' },
  }),
};
