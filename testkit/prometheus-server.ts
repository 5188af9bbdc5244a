import { mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { stringify } from 'yaml';
import { ensureBinaries } from '../tools/programs/index.ts';
import { dieWithParent } from './die-with-parent.ts';
import { eventually } from './eventually.ts';
import { freePorts } from './free-ports.ts';
import { exitInTime } from './in-time.ts';

/** What Prometheus scrapes: a port on 127.0.0.1, and the labels of its series. */
export interface ScrapeTarget {
  readonly port: number;
  readonly labels: Readonly<Record<string, string>>;
}

/** An alert that is pending or fires. */
export interface ActiveAlert {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly state: 'pending' | 'firing';
}

/** A series of a range query. The values are pairs of a time in seconds and a number as text. */
export interface RangeSeries {
  readonly metric: Readonly<Record<string, string>>;
  readonly values: readonly (readonly [timeSeconds: number, value: string])[];
}

const startProgram = (program: string, flags: readonly string[]) =>
  execa(...dieWithParent(program, flags), { all: true, reject: false });

/** A Prometheus that scrapes every two seconds and evaluates its rules every second. */
export class PrometheusServer implements AsyncDisposable {
  readonly #url: string;
  readonly #targetsFile: string;
  readonly #process: ReturnType<typeof startProgram>;

  private constructor(url: string, targetsFile: string, process: ReturnType<typeof startProgram>) {
    this.#url = url;
    this.#targetsFile = targetsFile;
    this.#process = process;
  }

  /**
   * Starts Prometheus without targets, and returns when it is ready.
   *
   * @param rules the groups of a rule file.
   * @param parent of the folder with its files.
   */
  static async start(rules: object, parent: string): Promise<PrometheusServer> {
    const program = (await ensureBinaries(['prometheus'])).get('prometheus') ?? '';
    const folder = await mkdtemp(join(parent, 'prometheus-'));
    const [port] = await freePorts();
    const targetsFile = join(folder, 'targets.json');
    await writeFile(targetsFile, '[]');
    await writeFile(join(folder, 'rules.yaml'), stringify(rules));
    const config = {
      // A target on a busy machine may need more than a second to respond.
      global: { scrape_interval: '2s', scrape_timeout: '2s', evaluation_interval: '1s' },
      rule_files: ['rules.yaml'],
      scrape_configs: [{ job_name: 'targets', file_sd_configs: [{ files: [targetsFile], refresh_interval: '1s' }] }],
    };
    await writeFile(join(folder, 'prometheus.yaml'), stringify(config));
    const flags = [
      `--config.file=${join(folder, 'prometheus.yaml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      // As usual in a cluster, where a series ends when its target is gone.
      '--query.lookback-delta=15s',
      '--log.level=warn',
    ];
    const child = startProgram(program, flags);
    const server = new PrometheusServer(`http://127.0.0.1:${port}`, targetsFile, child);
    await eventually('Prometheus is ready', async () => (await fetch(`${server.#url}/-/ready`)).ok);
    return server;
  }

  /** Replaces the targets. */
  async scrape(targets: readonly ScrapeTarget[]): Promise<void> {
    const groups = targets.map(({ port, labels }) => ({ targets: [`127.0.0.1:${port}`], labels }));
    await writeFile(this.#targetsFile, JSON.stringify(groups));
  }

  /** @throws Error if Prometheus rejects the query */
  async query(
    expr: string,
  ): Promise<readonly { readonly metric: object; readonly value: readonly [number, string] }[]> {
    return this.#get('query', { query: expr });
  }

  /** The last `seconds`. @throws Error if Prometheus rejects the query */
  async queryRange(expr: string, seconds: number, stepSeconds: number): Promise<readonly RangeSeries[]> {
    const end = Date.now() / 1000;
    return this.#get('query_range', { query: expr, start: `${end - seconds}`, end: `${end}`, step: `${stepSeconds}` });
  }

  async alerts(): Promise<readonly ActiveAlert[]> {
    const response = await fetch(`${this.#url}/api/v1/alerts`);
    const { data } = (await response.json()) as { data: { alerts: readonly ActiveAlert[] } };
    return data.alerts;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill('SIGTERM');
    await exitInTime('Prometheus', this.#process);
  }

  async #get<T>(path: string, parameters: Readonly<Record<string, string>>): Promise<readonly T[]> {
    const response = await fetch(`${this.#url}/api/v1/${path}`, {
      method: 'POST',
      body: new URLSearchParams(parameters),
    });
    const body = (await response.json()) as { status: string; error?: string; data: { result: readonly T[] } };
    if (body.status !== 'success') throw new Error(`${body.error}: ${parameters.query}`);
    return body.data.result;
  }
}
