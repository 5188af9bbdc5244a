import { join } from 'node:path';
import { nodeFlagsOf } from '../testkit/shipped-program.ts';
import { bundle } from '../tools/release/index.ts';
import { clientNodePeer, controllerRuntimePeer, kubeRsPeer } from './peers/programs.ts';

/** Ours is first, because ratios are ours divided by another's. */
export const operatorNames = ['echoperator', 'controller-runtime', 'kube-rs', 'client-node', 'unrecorded'] as const;
export type OperatorName = (typeof operatorNames)[number];

/** Takes part only if it is named: our operator without its flight recorder, whose cost the comparison shows. */
export const onlyOnDemand: OperatorName = 'unrecorded';

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
    const { command, environment } = await ours(folder, 'echoperator');
    return { command, environment: { ...environment, EXPLAIN_DIR: join(folder, 'explain') } };
  },
  'controller-runtime': async (_, signal) => ({ command: [await controllerRuntimePeer(signal)], environment: {} }),
  'kube-rs': async (_, signal) => ({ command: [await kubeRsPeer(signal)], environment: {} }),
  'client-node': async (folder) => ({
    command: [process.execPath, await clientNodePeer(folder)],
    environment: { NODE_ENV: 'production' },
  }),
  unrecorded: (folder) => ours(folder, 'unrecorded'),
};

async function ours(folder: string, name: OperatorName): Promise<Omit<Operator, 'name'>> {
  const bundled = await bundle({ folder: join(folder, name) });
  return {
    command: [process.execPath, ...(await nodeFlagsOf('operator')), join(bundled.folder, 'main.js')],
    // The peers have only this controller too.
    environment: { NODE_ENV: 'production', LOG_LEVEL: 'info', CONTROLLERS: 'echo' },
  };
}
