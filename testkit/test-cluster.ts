import { randomBytes } from 'node:crypto';
import { text } from 'node:stream/consumers';
import type { V1Namespace, V1Pod, V1ResourceQuota } from '@kubernetes/client-node';
import { Job } from '../src/controllers/built-in-kinds.ts';
import {
  builtInKind,
  type Client,
  HttpClient,
  isNotFound,
  type Kind,
  type KubeObject,
  kubeconfigConnection,
  type Manifest,
  type ObjectKey,
  type ObjectOf,
  Transport,
} from '../src/runtime/index.ts';
import { AuditLog } from '../tools/cluster/index.ts';
import { eventually } from './eventually.ts';
import { serverOfWorker } from './server-of-worker.ts';

export const Namespace = builtInKind<V1Namespace>({
  group: '',
  version: 'v1',
  kind: 'Namespace',
  plural: 'namespaces',
  scope: 'Cluster',
});
export const ResourceQuota = builtInKind<V1ResourceQuota>({
  group: '',
  version: 'v1',
  kind: 'ResourceQuota',
  plural: 'resourcequotas',
});
export const Pod = builtInKind<V1Pod>({ group: '', version: 'v1', kind: 'Pod', plural: 'pods' });

/** The test's own view of the API server, as an administrator. */
export class TestCluster {
  readonly client: Client;
  readonly kubeconfig: string;
  /** Since this has connected. */
  readonly auditLog: AuditLog;
  readonly #transport: Transport;
  readonly #namespaces: string[] = [];

  private constructor(transport: Transport, kubeconfig: string, auditLog: AuditLog) {
    this.#transport = transport;
    this.client = new HttpClient(transport, 'test');
    this.kubeconfig = kubeconfig;
    this.auditLog = auditLog;
  }

  /** Connects to the API server that the global set-up has started for this worker. */
  static async connect(): Promise<TestCluster> {
    const { kubeconfig, auditLog } = serverOfWorker();
    return TestCluster.at(kubeconfig, auditLog);
  }

  static async at(kubeconfig: string, auditLog: string): Promise<TestCluster> {
    const transport = new Transport(await kubeconfigConnection(kubeconfig), { userAgent: 'test' });
    return new TestCluster(transport, kubeconfig, await AuditLog.fromNowOn(auditLog));
  }

  /** Those of the test's own. */
  get namespaces(): readonly string[] {
    return this.#namespaces;
  }

  /** A namespace of the test's own; {@link close} deletes it. */
  async namespace(labels: Readonly<Record<string, string>> = {}): Promise<string> {
    const name = `test-${randomBytes(5).toString('hex')}`;
    await this.client.create(Namespace, { metadata: { name, labels } });
    this.#namespaces.push(name);
    return name;
  }

  /** Makes small objects, `bulk-0` and so on, a few at a time. */
  async createMany<T extends KubeObject>(kind: Kind<T>, namespace: string, count: number): Promise<void> {
    const names = Array.from({ length: count }, (_, index) => `bulk-${index}`);
    for (let from = 0; from < count; from += 16) {
      const batch = names.slice(from, from + 16);
      await Promise.all(
        batch.map((name) => this.client.create(kind, { metadata: { namespace, name } } as Manifest<T>)),
      );
    }
  }

  /** What the API server tells of itself. */
  async metrics(): Promise<string> {
    const body = await this.#transport.stream({ method: 'GET', path: '/metrics' });
    return text(body);
  }

  /**
   * Deletes the namespaces, and waits until nothing is left in them but what finalizers hold, as they hold claims: the
   * controller of namespaces looks for the end of those only after 8 seconds.
   *
   * @param timeoutMs for each namespace. Default: 90 s.
   */
  async close(timeoutMs = 90_000): Promise<void> {
    for (const name of this.#namespaces) {
      await this.client.delete(Namespace, { name }).catch((error: unknown) => {
        // The test may have deleted it itself.
        if (!isNotFound(error)) throw error;
      });
    }
    for (const name of this.#namespaces) {
      await eventually(`namespace ${name} is empty`, () => this.#isEmptied(name), timeoutMs);
    }
    await this.#transport.close();
  }

  /** True once its controller has gone through everything in a namespace that is to be deleted. */
  async #isEmptied(name: string): Promise<boolean> {
    try {
      const { status } = await this.client.get(Namespace, { name });
      return (
        status?.conditions?.some(({ type, status: is }) => type === 'NamespaceFinalizersRemaining' && is === 'True') ??
        false
      );
    } catch (error) {
      if (isNotFound(error)) return true;
      throw error;
    }
  }

  /** Deletes a namespace of the test's own now, and waits until it is gone. */
  async deleteNamespace(name: string): Promise<void> {
    await this.client.delete(Namespace, { name });
    await eventually(`namespace ${name} is gone`, () => this.isGone(() => this.client.get(Namespace, { name })));
  }

  /** Leaves everything where it is: for a server that is about to go with it. */
  async disconnect(): Promise<void> {
    await this.#transport.close();
  }

  async isGone(get: () => Promise<unknown>): Promise<boolean> {
    try {
      await get();
      return false;
    } catch (error) {
      if (isNotFound(error)) return true;
      throw error;
    }
  }

  /** The pods that the job controller has made for a Job. */
  async podsOf(job: ObjectKey): Promise<readonly ObjectOf<typeof Pod>[]> {
    const { namespace = '', name } = job;
    const list = await this.client.list(Pod, { namespace, labelSelector: `batch.kubernetes.io/job-name=${name}` });
    return list.items;
  }

  /** There is no kubelet here: plays one whose container ended with an exit code, for each pod of the Job. */
  async endPods(job: ObjectKey, exitCode = 0): Promise<void> {
    const pods = await eventually(`Job ${job.name} has a pod`, async () => {
      const found = await this.podsOf(job);
      return found.length > 0 && found;
    });
    for (const { metadata } of pods) {
      const { name, namespace = '', resourceVersion } = metadata;
      await this.client.mergeStatus(
        Pod,
        { name, namespace, resourceVersion },
        {
          phase: exitCode === 0 ? 'Succeeded' : 'Failed',
          containerStatuses: [
            {
              name: 'echo',
              image: 'busybox',
              imageID: '',
              ready: false,
              restartCount: 0,
              state: { terminated: { exitCode, finishedAt: new Date().toISOString() } },
            },
          ],
        },
      );
    }
  }

  /** Waits for a Job with a uid other than `otherThan`. */
  async job(key: ObjectKey, otherThan?: string): Promise<ObjectOf<typeof Job>> {
    return eventually(`Job ${key.name} exists`, async () => {
      const job = await this.client.get(Job, key);
      return job.metadata.uid !== otherThan && job.metadata.deletionTimestamp === undefined && job;
    });
  }
}
