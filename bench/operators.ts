import { join } from 'node:path';
import { nodeFlagsOf } from '../testkit/shipped-program.ts';
import { bundle } from '../tools/release/index.ts';
import { clientNodePeer, controllerRuntimePeer, kubeRsPeer } from './peers/programs.ts';

/** Ours is first, because ratios are ours divided by another's. */
export const operatorNames = ['echoperator', 'controller-runtime', 'kube-rs', 'client-node'] as const;
export type OperatorName = (typeof operatorNames)[number];

/** A compared operator, and how to start it. */
export interface Operator {
  readonly name: OperatorName;
  readonly command: readonly [program: string, ...args: string[]];
  /** Environment variables in addition to those of all operators. */
  readonly environment: Readonly<Record<string, string>>;
}

/** Builds the operators. Programs that are not cached for the user go into `folder`. */
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
      // The peers have only this controller too.
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
