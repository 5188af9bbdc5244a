import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Pod } from '@echoperator/runtime/kinds';
import { execa } from 'execa';
import { parse, stringify } from 'yaml';
import { operatorCommand } from '../../../testkit/operator-process.ts';
import type { ShippedPrograms } from '../../../testkit/shipped-program.ts';
import type { TestCluster } from '../../../testkit/test-cluster.ts';
import { ensureBinaries } from '../../../tools/programs/index.ts';

const pollMs = 50;

/**
 * Plays the kubelet for the Jobs of the chart's hooks in a cluster without nodes: runs the command of each pod, with
 * its variables and as its ServiceAccount, and reports how it ended.
 */
export class HookPods {
  readonly #cluster: TestCluster;
  readonly #programs: ShippedPrograms;
  readonly #folder: string;

  /** @param folder for kubeconfigs; the caller removes it */
  constructor(cluster: TestCluster, programs: ShippedPrograms, folder: string) {
    this.#cluster = cluster;
    this.#programs = programs;
    this.#folder = folder;
  }

  /** Runs the pods of a namespace until the work, for example of Helm, has ended. @returns its result */
  async during<T>(namespace: string, work: Promise<T>): Promise<T> {
    const end = new AbortController();
    const pods = this.#run(namespace, end.signal);
    try {
      // A pod that cannot be run would let Helm wait for its whole time limit.
      return await Promise.race([work, pods.then(() => work)]);
    } finally {
      end.abort();
      await pods;
    }
  }

  async #run(namespace: string, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const { items } = await this.#cluster.client.list(Pod, { namespace });
      for (const pod of items.filter(isPendingHook)) await this.#runPod(pod);
      await delay(pollMs);
    }
  }

  async #runPod({ metadata, spec }: Pod): Promise<void> {
    const container = spec?.containers[0];
    const variables = (container?.env ?? []).map(({ name, value = '' }) => [name, value] as const);
    const kubeconfig = await this.#kubeconfigOf(metadata.namespace ?? '', spec?.serviceAccountName ?? '');
    const env = { ...Object.fromEntries(variables), KUBECONFIG: kubeconfig };
    const { exitCode } = await operatorCommand(container?.args ?? [], env, this.#programs);
    await this.#cluster.client.mergeStatus(Pod, metadata, { phase: exitCode === 0 ? 'Succeeded' : 'Failed' });
  }

  /** Writes a kubeconfig with the ServiceAccount's token. @returns its path */
  async #kubeconfigOf(namespace: string, name: string): Promise<string> {
    const kubectl = (await ensureBinaries(['kubectl'])).get('kubectl') ?? '';
    const command = ['create', 'token', name, `--namespace=${namespace}`];
    const { stdout: token } = await execa(kubectl, command, { env: { KUBECONFIG: this.#cluster.kubeconfig } });
    const config = parse(await readFile(this.#cluster.kubeconfig, 'utf8'));
    const users = config.users.map((user: object) => ({ ...user, user: { token } }));
    const path = join(this.#folder, `${namespace}-${name}.kubeconfig`);
    await writeFile(path, stringify({ ...config, users }));
    return path;
  }
}

const isPendingHook = ({ metadata, status }: Pod): boolean =>
  metadata.ownerReferences?.[0]?.kind === 'Job' && (status?.phase ?? 'Pending') === 'Pending';
