import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { stringify } from 'yaml';
import { ensureBinaries } from '../../tools/programs/index.ts';
import { Rendering } from './rendering.ts';

/** The chart's folder. */
export const chart = join(import.meta.dirname, '../../charts/echoperator');

/** Helm refused; the message is what it told the user. */
export class HelmError extends Error {
  override readonly name = 'HelmError';
}

export interface RenderOptions {
  readonly values?: object | undefined;
  /** Further values files, by path. */
  readonly valuesFiles?: readonly string[];
  readonly release?: string;
  readonly namespace?: string;
  readonly kubeVersion?: string;
  /** What the cluster knows besides Kubernetes' own: `group/version/Kind`. */
  readonly apiVersions?: readonly string[];
  /** As for an upgrade rather than an installation. */
  readonly upgrade?: boolean;
  /** Asks the cluster, as an installation does: the chart's `lookup` finds what is there. */
  readonly dryRun?: 'server';
}

export interface ReleaseOptions {
  readonly release?: string;
  readonly namespace: string;
  readonly values?: object;
  readonly flags?: readonly string[];
}

/** The Helms that the chart is for. */
export const everyHelm = ['helm', 'helm4'] as const;
export type HelmName = (typeof everyHelm)[number];

/**
 * The Helms that each test runs with: Helm 4, and nightly, with `HELMS=every`, Helm 3 as well. lint.test.ts always asserts that
 * both render the same.
 */
export const helmNames: readonly HelmName[] = process.env.HELMS === 'every' ? everyHelm : ['helm4'];

/** One of them. */
export class Helm {
  readonly #program: string;
  readonly #chart: string;
  readonly #kubeconfig: string;
  /** What was rendered without a cluster, by the arguments: most tests of a file look at the same few renderings. */
  static readonly #renderings = new Map<string, Promise<Rendering>>();

  private constructor(program: string, chartPath: string, kubeconfig: string) {
    this.#program = program;
    this.#chart = chartPath;
    this.#kubeconfig = kubeconfig;
  }

  /**
   * @param chartPath the chart that it works on, a folder or a package; ours by default
   * @param kubeconfig the cluster that it works on; none by default
   */
  static async find(name: HelmName, chartPath = chart, kubeconfig = ''): Promise<Helm> {
    const program = (await ensureBinaries([name])).get(name);
    if (program === undefined) throw new Error(`${name} was not built`);
    return new Helm(program, chartPath, kubeconfig);
  }

  /** @returns what `helm lint --strict` said. @throws HelmError if it found fault */
  async lint(values: object = {}): Promise<string> {
    return this.#run(['lint', '--strict', this.#chart], values);
  }

  /** @throws HelmError if the chart refuses the values or the cluster's version */
  async render({
    values = {},
    valuesFiles = [],
    release = 'demo',
    namespace = 'operators',
    kubeVersion = 'v1.36.3',
    apiVersions = [],
    upgrade = false,
    dryRun,
  }: RenderOptions = {}): Promise<Rendering> {
    const command = [
      'template',
      release,
      this.#chart,
      `--namespace=${namespace}`,
      `--kube-version=${kubeVersion}`,
      ...apiVersions.map((version) => `--api-versions=${version}`),
      ...valuesFiles.map((file) => `--values=${file}`),
      ...(upgrade ? ['--is-upgrade'] : []),
      ...(dryRun === undefined ? [] : [`--dry-run=${dryRun}`]),
    ];
    const render = async (): Promise<Rendering> => new Rendering(await this.#run(command, values));
    if (dryRun !== undefined) return render();
    const key = JSON.stringify([this.#program, command, values]);
    const known = Helm.#renderings.get(key) ?? render();
    Helm.#renderings.set(key, known);
    return known;
  }

  /** Installs the release or upgrades it. Waits for no pod and runs no hook, so that a cluster without nodes is enough. */
  async upgrade({ release = 'demo', namespace, values = {}, flags = [] }: ReleaseOptions): Promise<void> {
    const options = [`--namespace=${namespace}`, '--reset-values', '--no-hooks', ...flags];
    await this.#run(['upgrade', '--install', release, this.#chart, ...options], values);
  }

  async rollback(revision: number, { release = 'demo', namespace }: ReleaseOptions): Promise<void> {
    await this.#run(['rollback', release, String(revision), `--namespace=${namespace}`, '--no-hooks']);
  }

  async uninstall({ release = 'demo', namespace }: ReleaseOptions): Promise<void> {
    await this.#run(['uninstall', release, `--namespace=${namespace}`, '--no-hooks', '--ignore-not-found']);
  }

  /** As a user does, with the check before it. @throws HelmError if that has not passed in time */
  async uninstallAfterCheck({ release = 'demo', namespace }: ReleaseOptions, timeout: string): Promise<void> {
    await this.#run(['uninstall', release, `--namespace=${namespace}`, `--timeout=${timeout}`]);
  }

  /** @returns what `helm show crds` prints, for kubectl to apply */
  async showCrds(): Promise<string> {
    return this.#run(['show', 'crds', this.#chart]);
  }

  /**
   * Helm 4 alone: Helm 3 asks a cluster even for a dry run.
   *
   * @returns what a user is told after the installation
   */
  async notes(values: object = {}): Promise<string> {
    const output = await this.#run(
      ['install', 'demo', this.#chart, '--namespace=operators', '--dry-run=client'],
      values,
    );
    return output.slice(output.indexOf('NOTES:'));
  }

  /** Packages the chart into the folder. @returns the package's path */
  async package(folder: string): Promise<string> {
    const said = await this.#run(['package', this.#chart, `--destination=${folder}`]);
    return said.slice(said.indexOf(folder)).trim();
  }

  async #run(command: readonly string[], values?: object): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), 'chart-'));
    try {
      const file = join(folder, 'values.yaml');
      if (values !== undefined) await writeFile(file, stringify(values));
      const options = values === undefined ? [] : [`--values=${file}`];
      // A folder of its own for what Helm keeps, so that the user's plugins and repositories play no part.
      const env = {
        HELM_CACHE_HOME: folder,
        HELM_CONFIG_HOME: folder,
        HELM_DATA_HOME: folder,
        KUBECONFIG: this.#kubeconfig,
      };
      const result = await execa(this.#program, [...command, ...options], { env, reject: false });
      if (result.exitCode === 0) return result.stdout;
      throw new HelmError(result.stderr || result.stdout, { cause: result });
    } finally {
      await rm(folder, { recursive: true });
    }
  }
}
