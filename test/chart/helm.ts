import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { stringify } from 'yaml';
import { ensureBinaries } from '../../tools/index.ts';
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
}

/** The Helms that the chart is for. */
export const helmNames = ['helm', 'helm4'] as const;
export type HelmName = (typeof helmNames)[number];

/** One of them. No cluster is asked. */
export class Helm {
  readonly #program: string;
  readonly #chart: string;

  private constructor(program: string, chartPath: string) {
    this.#program = program;
    this.#chart = chartPath;
  }

  /** @param chartPath the chart that it works on, a folder or a package; ours by default */
  static async find(name: HelmName, chartPath = chart): Promise<Helm> {
    const program = (await ensureBinaries([name])).get(name);
    if (program === undefined) throw new Error(`${name} was not built`);
    return new Helm(program, chartPath);
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
  }: RenderOptions = {}): Promise<Rendering> {
    const output = await this.#run(
      [
        'template',
        release,
        this.#chart,
        `--namespace=${namespace}`,
        `--kube-version=${kubeVersion}`,
        ...apiVersions.map((version) => `--api-versions=${version}`),
        ...valuesFiles.map((file) => `--values=${file}`),
        ...(upgrade ? ['--is-upgrade'] : []),
      ],
      values,
    );
    return new Rendering(output);
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
      const env = { HELM_CACHE_HOME: folder, HELM_CONFIG_HOME: folder, HELM_DATA_HOME: folder, KUBECONFIG: '' };
      const result = await execa(this.#program, [...command, ...options], { env, reject: false });
      if (result.exitCode === 0) return result.stdout;
      throw new HelmError(result.stderr || result.stdout, { cause: result });
    } finally {
      await rm(folder, { recursive: true });
    }
  }
}
