import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { stringify } from 'yaml';
import { ensureBinaries } from '../../tools/programs/index.ts';
import { Rendering } from './rendering.ts';

/** The chart's folder. */
export const chart = join(import.meta.dirname, '../../charts/echoperator');

/** Helm failed. The message is Helm's output. */
export class HelmError extends Error {
  override readonly name = 'HelmError';
}

export interface RenderOptions {
  readonly values?: object | undefined;
  /** Paths of additional values files. */
  readonly valuesFiles?: readonly string[];
  readonly release?: string;
  readonly namespace?: string;
  readonly kubeVersion?: string;
  /** Kinds that the cluster serves besides Kubernetes' own: `group/version/Kind`. */
  readonly apiVersions?: readonly string[];
  /** Renders an upgrade instead of an installation. */
  readonly upgrade?: boolean;
  /** `server` asks the cluster, as an installation does, so that the chart's `lookup` finds objects. */
  readonly dryRun?: 'server';
}

export interface ReleaseOptions {
  readonly release?: string;
  readonly namespace: string;
  readonly values?: object;
  readonly flags?: readonly string[];
  /** Which values of the last revision an upgrade keeps. Default: none. */
  readonly keep?: '--reuse-values' | '--reset-then-reuse-values';
  /** Whether hooks run. Their Jobs need somebody who runs their pods. Default: false. */
  readonly hooks?: boolean;
}

/** The versions of Helm that the chart supports. */
export const everyHelm = ['helm', 'helm4'] as const;
export type HelmName = (typeof everyHelm)[number];

/**
 * The versions of Helm that each test runs with: Helm 4, and with `HELMS=every` (nightly) also Helm 3. lint.test.ts
 * always checks that both render the same manifests.
 */
export const helmNames: readonly HelmName[] = process.env.HELMS === 'every' ? everyHelm : ['helm4'];

/** One version of Helm. */
export class Helm {
  readonly #program: string;
  readonly #chart: string;
  readonly #kubeconfig: string;
  /** Caches renderings without a cluster by their arguments, because most tests of a file use the same few. */
  static readonly #renderings = new Map<string, Promise<Rendering>>();

  private constructor(program: string, chartPath: string, kubeconfig: string) {
    this.#program = program;
    this.#chart = chartPath;
    this.#kubeconfig = kubeconfig;
  }

  /**
   * @param chartPath a folder or package. Default: this repository's chart
   * @param kubeconfig of the cluster. Default: no cluster
   */
  static async find(name: HelmName, chartPath = chart, kubeconfig = ''): Promise<Helm> {
    const program = (await ensureBinaries([name])).get(name);
    if (program === undefined) throw new Error(`${name} was not built`);
    return new Helm(program, chartPath, kubeconfig);
  }

  /** @returns the output of `helm lint --strict`. @throws HelmError if it fails */
  async lint(values: object = {}): Promise<string> {
    return this.#run(['lint', '--strict', this.#chart], values);
  }

  /** @throws HelmError if the chart rejects the values or the cluster's version */
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

  /** Installs or upgrades the release without waiting for pods, so that a release without hooks needs no nodes. */
  async upgrade({ release = 'demo', namespace, values = {}, flags = [], keep, hooks }: ReleaseOptions): Promise<void> {
    const hooksFlag = hooks ? [] : ['--no-hooks'];
    const options = [`--namespace=${namespace}`, keep ?? '--reset-values', ...hooksFlag, ...flags];
    await this.#run(['upgrade', '--install', release, this.#chart, ...options], values);
  }

  async rollback(revision: number, { release = 'demo', namespace }: ReleaseOptions): Promise<void> {
    await this.#run(['rollback', release, String(revision), `--namespace=${namespace}`, '--no-hooks']);
  }

  async uninstall({ release = 'demo', namespace, flags = [] }: ReleaseOptions): Promise<void> {
    await this.#run(['uninstall', release, `--namespace=${namespace}`, '--no-hooks', '--ignore-not-found', ...flags]);
  }

  /** Uninstalls the release after its check, as a user does. @throws HelmError if the check does not pass in time */
  async uninstallAfterCheck({ release = 'demo', namespace }: ReleaseOptions, timeout: string): Promise<void> {
    await this.#run(['uninstall', release, `--namespace=${namespace}`, `--timeout=${timeout}`]);
  }

  /**
   * Renders the notes. Without a cluster only for Helm 4: Helm 3 asks a cluster even in a dry run.
   *
   * @param options.dryRun `server` asks the cluster.
   * @returns the notes that a user sees after the installation
   */
  async notes(
    values: object = {},
    { namespace = 'operators', dryRun = 'client' }: { namespace?: string; dryRun?: 'client' | 'server' } = {},
  ): Promise<string> {
    const output = await this.#run(
      ['install', 'demo', this.#chart, `--namespace=${namespace}`, `--dry-run=${dryRun}`],
      values,
    );
    return output.slice(output.indexOf('NOTES:'));
  }

  /** Packages the chart into the folder. @returns the package's path */
  async package(folder: string): Promise<string> {
    const said = await this.#run(['package', this.#chart, `--destination=${folder}`]);
    return said.slice(said.indexOf(folder)).trim();
  }

  /** Pushes the package to a registry without TLS: `oci://HOST/PATH`. @returns Helm's output, which names the digest */
  async push(packagePath: string, remote: string): Promise<string> {
    const { stdout, stderr } = await this.#execute(['push', packagePath, remote, '--plain-http']);
    // Which of the two Helm writes to differs between its versions.
    return `${stdout}\n${stderr}`;
  }

  /**
   * Runs `helm show chart` for a version in a registry without TLS.
   *
   * @returns both outputs.
   * @throws HelmError if it is not there
   */
  async showChart(version: string): Promise<string> {
    const { stdout, stderr } = await this.#execute([
      'show',
      'chart',
      this.#chart,
      `--version=${version}`,
      '--plain-http',
    ]);
    return `${stdout}\n${stderr}`;
  }

  async #run(command: readonly string[], values?: object): Promise<string> {
    return (await this.#execute(command, values)).stdout;
  }

  async #execute(
    command: readonly string[],
    values?: object,
  ): Promise<{ readonly stdout: string; readonly stderr: string }> {
    const folder = await mkdtemp(join(tmpdir(), 'chart-'));
    try {
      const file = join(folder, 'values.yaml');
      if (values !== undefined) await writeFile(file, stringify(values));
      const options = values === undefined ? [] : [`--values=${file}`];
      // Isolates Helm from the user's plugins and repositories.
      const env = {
        HELM_CACHE_HOME: folder,
        HELM_CONFIG_HOME: folder,
        HELM_DATA_HOME: folder,
        KUBECONFIG: this.#kubeconfig,
      };
      const result = await execa(this.#program, [...command, ...options], { env, reject: false });
      if (result.exitCode === 0) return result;
      throw new HelmError(result.stderr || result.stdout, { cause: result });
    } finally {
      await rm(folder, { recursive: true });
    }
  }
}
