import { randomBytes } from 'node:crypto';
import { dirname } from 'node:path';
import { execa } from 'execa';
import { AuditLog, type Cluster } from '../../../tools/cluster/index.ts';
import { ensureBinaries } from '../../../tools/programs/index.ts';

/** Helm 3 or Helm 4. */
export type HelmName = 'helm' | 'helm4';

type ClusterFiles = Pick<Cluster, 'kubeconfigPath' | 'auditLog'>;

function filesOfSharedCluster(): ClusterFiles {
  const { E2E_KUBECONFIG: kubeconfigPath, E2E_AUDIT_LOG: auditLog } = process.env;
  if (kubeconfigPath === undefined || auditLog === undefined) throw new Error('the global set-up has not run');
  return { kubeconfigPath, auditLog };
}

/** Access to a cluster as its users have it: kubectl and helm. */
export class E2eCluster {
  readonly kubeconfig: string;
  /** The API server's log since this connection was made. */
  readonly auditLog: AuditLog;
  readonly #kubectl: string;
  readonly #helms: Readonly<Record<HelmName, string>>;

  private constructor(options: {
    kubeconfig: string;
    auditLog: AuditLog;
    kubectl: string;
    helms: Record<HelmName, string>;
  }) {
    this.kubeconfig = options.kubeconfig;
    this.auditLog = options.auditLog;
    this.#kubectl = options.kubectl;
    this.#helms = options.helms;
  }

  /** Connects to a cluster. Default: the cluster of the global set-up. */
  static async connect({ kubeconfigPath, auditLog }: ClusterFiles = filesOfSharedCluster()): Promise<E2eCluster> {
    const binaries = await ensureBinaries(['kubectl', 'helm', 'helm4']);
    const kubectl = binaries.get('kubectl') ?? '';
    const helms = { helm: binaries.get('helm') ?? '', helm4: binaries.get('helm4') ?? '' };
    const options = { kubeconfig: kubeconfigPath, auditLog: await AuditLog.fromEnd(auditLog) };
    return new E2eCluster({ ...options, kubectl, helms });
  }

  /** Runs kubectl. @throws ExecaError with kubectl's error output */
  async kubectl(args: readonly string[], input?: string): Promise<string> {
    const env = { KUBECONFIG: this.kubeconfig };
    const { stdout } = await execa(this.#kubectl, args, { env, ...(input !== undefined && { input }) });
    return stdout;
  }

  /** Runs helm. @param version default: Helm 3. @throws ExecaError with helm's error output */
  async helm(args: readonly string[], version: HelmName = 'helm'): Promise<string> {
    return (await execa(this.#helms[version], args, { env: { KUBECONFIG: this.kubeconfig } })).stdout;
  }

  /** Runs a shell script with kubectl and helm on the PATH. @throws ExecaError with the error output */
  async shell(script: string, folder: string, signal?: AbortSignal): Promise<string> {
    const path = [dirname(this.#kubectl), dirname(this.#helms.helm), process.env.PATH].join(':');
    const options = {
      cwd: folder,
      env: { KUBECONFIG: this.kubeconfig, PATH: path },
      ...(signal && { cancelSignal: signal }),
    };
    return (await execa('bash', ['-euo', 'pipefail', '-c', script], options)).stdout;
  }

  /** Returns the parsed output of `kubectl get`. */
  async get<T>(...args: readonly string[]): Promise<T> {
    return JSON.parse(await this.kubectl(['get', ...args, '--output=json'])) as T;
  }

  async apply(object: object): Promise<void> {
    await this.kubectl(['apply', '--server-side', '--filename=-'], JSON.stringify(object));
  }

  /** Creates a namespace. */
  async namespace(labels: Readonly<Record<string, string>> = {}): Promise<string> {
    const name = `e2e-${randomBytes(5).toString('hex')}`;
    await this.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } });
    return name;
  }

  /** Deletes a namespace, so that its pods do not run during later tests. Does not wait until it is gone. */
  async deleteNamespace(name: string): Promise<void> {
    await this.kubectl(['delete', 'namespace', name, '--ignore-not-found', '--wait=false']);
  }

  /** Returns the exact output of a Job's pod. */
  async logOf(job: string, namespace: string): Promise<string> {
    const { stdout } = await execa(this.#kubectl, ['logs', `job/${job}`, '--namespace', namespace], {
      env: { KUBECONFIG: this.kubeconfig },
      stripFinalNewline: false,
    });
    return stdout;
  }
}

/** Returns a manifest of an Echo. */
export const echo = (name: string, namespace: string, spec: object): object => ({
  apiVersion: 'mmontes.io/v1alpha1',
  kind: 'Echo',
  metadata: { name, namespace },
  spec,
});

/** Returns a manifest of several objects. */
export const listOf = (items: readonly object[]): object => ({ apiVersion: 'v1', kind: 'List', items });
