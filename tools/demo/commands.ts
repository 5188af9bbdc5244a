import { join } from 'node:path';
import { execa, type Options } from 'execa';
import { folder } from './settings.ts';

/** The programs and the kubeconfig of the demo, which are never the user's. */
export type Commands = {
  /** The folder that contains helm and kubectl. */
  readonly bin: string;
  readonly kubeconfig: string;
  readonly signal: AbortSignal;
};

/** Runs helm or kubectl. @returns its exact standard output. @throws ExecaError with its standard error */
export async function run(
  { bin, kubeconfig, signal }: Commands,
  command: 'helm' | 'kubectl',
  ...args: readonly string[]
): Promise<string> {
  const options = {
    cancelSignal: signal,
    stripFinalNewline: false,
    env: {
      KUBECONFIG: kubeconfig,
      HELM_CACHE_HOME: join(folder, 'helm/cache'),
      HELM_CONFIG_HOME: join(folder, 'helm/config'),
      HELM_DATA_HOME: join(folder, 'helm/data'),
    },
  } as const satisfies Options;
  const { stdout } = await execa(join(bin, command), args, options);
  return stdout;
}
