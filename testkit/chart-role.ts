import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { parse, stringify } from 'yaml';
import { ensureBinaries } from '../tools/programs/index.ts';
import { selfContainedControllers } from './operator-process.ts';
import type { TestCluster } from './test-cluster.ts';

const chart = join(import.meta.dirname, '../charts/echoperator');

/**
 * Creates only the chart's service account and roles, with all controllers that need no external system.
 *
 * @param options.folder for the kubeconfig; the caller removes it
 * @param options.name of the cluster-wide roles. Default: echoperator
 * @returns the path of a kubeconfig with the account's token
 */
export async function chartRole(
  kubeconfig: string,
  options: {
    readonly namespace: string;
    readonly folder: string;
    readonly values: { readonly controllers?: object } & object;
    readonly name?: string;
  },
): Promise<string> {
  const { namespace, folder, values, name = 'echoperator' } = options;
  const helm = (await ensureBinaries(['helm'])).get('helm') ?? '';
  const valuesFile = join(folder, 'chart-values.yaml');
  const enabled = Object.fromEntries(selfContainedControllers.map((each) => [each, { enabled: true }]));
  const controllers = { ...enabled, ...values.controllers };
  await writeFile(valuesFile, stringify({ ...values, controllers, fullnameOverride: name }));
  const shown = ['serviceaccount.yaml', 'rbac/operator.yaml'].flatMap((file) => ['--show-only', `templates/${file}`]);
  const where = ['--namespace', namespace];
  const rendered = await execa(helm, ['template', name, chart, ...where, '--values', valuesFile, ...shown]);
  await kubectl(kubeconfig, ['apply', '--filename=-'], rendered.stdout);
  const token = await kubectl(kubeconfig, ['create', 'token', name, ...where]);
  const config = parse(await readFile(kubeconfig, 'utf8'));
  config.users = config.users.map((user: { readonly name: string }) => ({ name: user.name, user: { token } }));
  const path = join(folder, 'chart-role.kubeconfig');
  await writeFile(path, stringify(config), { mode: 0o600 });
  return path;
}

/** The chart's service account with its cluster-wide roles. */
export class ChartRole {
  /** Authenticates with the service account's token. */
  readonly kubeconfig: string;
  readonly #cluster: TestCluster;
  readonly #release: string;
  readonly #folder: string;

  private constructor(cluster: TestCluster, release: string, folder: string, kubeconfig: string) {
    this.#cluster = cluster;
    this.#release = release;
    this.#folder = folder;
    this.kubeconfig = kubeconfig;
  }

  /** @param release the name of the cluster-wide roles */
  static async install(
    cluster: TestCluster,
    release: string,
    namespace: string,
    values: object = {},
  ): Promise<ChartRole> {
    const folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'role-'));
    const kubeconfig = await chartRole(cluster.kubeconfig, { namespace, folder, values, name: release });
    return new ChartRole(cluster, release, folder, kubeconfig);
  }

  /** Deletes the cluster-wide roles, which the deletion of the namespace does not delete. */
  async remove(): Promise<void> {
    const mine = `--selector=app.kubernetes.io/instance=${this.#release}`;
    await kubectl(this.#cluster.kubeconfig, ['delete', 'clusterrole,clusterrolebinding', mine]);
    await rm(this.#folder, { recursive: true, force: true });
  }
}

async function kubectl(kubeconfig: string, args: readonly string[], input?: string): Promise<string> {
  const program = (await ensureBinaries(['kubectl'])).get('kubectl') ?? '';
  const env = { KUBECONFIG: kubeconfig };
  return (await execa(program, args, { env, ...(input !== undefined && { input }) })).stdout;
}
