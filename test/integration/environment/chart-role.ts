import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { parse, stringify } from 'yaml';
import { ensureBinaries } from '../../../tools/index.ts';
import type { TestCluster } from './cluster.ts';

const chart = join(import.meta.dirname, '../../../charts/echoperator');

/** The chart's service account with its roles, and nothing else of the chart. */
export class ChartRole {
  /** With the service account's token. */
  readonly kubeconfig: string;
  readonly #cluster: TestCluster;
  readonly #release: string;
  readonly #folder: string;

  private constructor(cluster: TestCluster, release: string, folder: string) {
    this.#cluster = cluster;
    this.#release = release;
    this.#folder = folder;
    this.kubeconfig = join(folder, 'kubeconfig');
  }

  /** @param release the name under which the roles stand in the whole cluster. */
  static async install(cluster: TestCluster, release: string, namespace: string): Promise<ChartRole> {
    const folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'role-'));
    const role = new ChartRole(cluster, release, folder);
    const helm = (await ensureBinaries(['helm'])).get('helm') ?? '';
    const shown = ['serviceaccount.yaml', 'rbac/operator.yaml'].flatMap((file) => ['--show-only', `templates/${file}`]);
    const name = ['--set', `fullnameOverride=${release}`];
    const { stdout } = await execa(helm, ['template', release, chart, '--namespace', namespace, ...name, ...shown]);
    await role.#kubectl(['apply', '--filename=-'], stdout);
    const token = await role.#kubectl(['create', 'token', release, '--namespace', namespace]);
    const config = parse(await readFile(cluster.kubeconfig, 'utf8'));
    config.users = config.users.map((user: { name: string }) => ({ name: user.name, user: { token } }));
    await writeFile(role.kubeconfig, stringify(config));
    return role;
  }

  /** Removes what outlives the namespace. */
  async remove(): Promise<void> {
    const mine = `--selector=app.kubernetes.io/instance=${this.#release}`;
    await this.#kubectl(['delete', 'clusterrole,clusterrolebinding', mine]);
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #kubectl(args: readonly string[], input?: string): Promise<string> {
    const kubectl = (await ensureBinaries(['kubectl'])).get('kubectl') ?? '';
    const env = { KUBECONFIG: this.#cluster.kubeconfig };
    return (await execa(kubectl, args, { env, ...(input !== undefined && { input }) })).stdout;
  }
}
