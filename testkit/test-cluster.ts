import { randomBytes } from 'node:crypto';
import { text } from 'node:stream/consumers';
import type { Client, Kind, KubeObject, Manifest, ObjectKey } from '@echoperator/runtime';
import { ApiError, isNotFound, kubeconfigConnection, NoResponseError } from '@echoperator/runtime/client';
import { Job, Namespace, Pod } from '@echoperator/runtime/kinds';
import { HttpClient } from '../packages/runtime/src/client/http-client.ts';
import { Transport } from '../packages/runtime/src/client/transport.ts';
import { forEachConcurrently } from '../packages/testing/src/for-each-concurrently.ts';
import { kinds } from '../src/operator.ts';
import { AuditLog } from '../tools/cluster/index.ts';
import { eventually } from './eventually.ts';
import { serverOfWorker } from './server-of-worker.ts';

/** A test's connection to the API server, as an administrator. */
export class TestCluster {
  readonly client: Client;
  readonly kubeconfig: string;
  /** The log since this connection was made. */
  readonly auditLog: AuditLog;
  readonly #transport: Transport;
  readonly #namespaces: string[] = [];

  private constructor(transport: Transport, kubeconfig: string, auditLog: AuditLog) {
    this.#transport = transport;
    this.client = new HttpClient(transport, 'test');
    this.kubeconfig = kubeconfig;
    this.auditLog = auditLog;
  }

  /** Connects to the API server that the global set-up started for this worker. */
  static async connect(): Promise<TestCluster> {
    const { kubeconfig, auditLog } = serverOfWorker();
    return TestCluster.at(kubeconfig, auditLog);
  }

  static async at(kubeconfig: string, auditLog: string): Promise<TestCluster> {
    const transport = new Transport(await kubeconfigConnection(kubeconfig), { userAgent: 'test' });
    return new TestCluster(transport, kubeconfig, await AuditLog.fromEnd(auditLog));
  }

  /** The namespaces of {@link namespace}. */
  get namespaces(): readonly string[] {
    return this.#namespaces;
  }

  /** Creates a namespace. {@link close} deletes it. */
  async namespace(labels: Readonly<Record<string, string>> = {}): Promise<string> {
    const name = `test-${randomBytes(5).toString('hex')}`;
    await this.client.create(Namespace, { metadata: { name, labels } });
    this.#namespaces.push(name);
    return name;
  }

  /** Creates small objects with the names `bulk-0`, `bulk-1` and so on. */
  async createMany<T extends KubeObject>(kind: Kind<T>, namespace: string, count: number): Promise<void> {
    await forEachConcurrently(Array(count).keys(), (index) =>
      this.client.create(kind, { metadata: { namespace, name: `bulk-${index}` } } as Manifest<T>),
    );
  }

  /** Returns the metrics of the API server. */
  async metrics(): Promise<string> {
    const body = await this.#transport.stream({ method: 'GET', path: '/metrics' });
    return text(body);
  }

  /**
   * Deletes the namespaces without waiting until they are gone, because their controller starts only after 5 seconds.
   * Also deletes the objects of our kinds, so that the operator of the next test file finds only objects with a
   * finalizer.
   */
  async close(): Promise<void> {
    try {
      await Promise.all(this.#namespaces.map((name) => this.#deleteContents(name)));
    } finally {
      await this.#transport.close();
    }
  }

  async #deleteContents(namespace: string): Promise<void> {
    const deletions = [
      this.client.delete(Namespace, { name: namespace }),
      ...kinds.map((kind) => this.#deleteAll(kind, namespace)),
    ];
    for (const deletion of await Promise.allSettled(deletions)) {
      if (deletion.status === 'fulfilled') continue;
      // The test may have deleted the namespace itself. Not every server has our kinds. For an unknown kind the
      // server's error has no reason.
      if (!(deletion.reason instanceof ApiError && deletion.reason.code === 404)) throw deletion.reason;
    }
  }

  /**
   * Deletes the objects of a kind. The server deletes one after the other, and thousands of objects may take longer
   * than the timeout of a request.
   */
  async #deleteAll(kind: Kind, namespace: string): Promise<void> {
    for (let attempts = 1; ; attempts += 1) {
      try {
        await this.client.deleteCollection(kind, { namespace });
        return;
      } catch (error) {
        if (!(error instanceof NoResponseError) || attempts === 5) throw error;
      }
    }
  }

  /** Deletes a namespace and waits until it is gone. */
  async deleteNamespace(name: string): Promise<void> {
    await this.client.delete(Namespace, { name });
    await eventually(`namespace ${name} is gone`, () => this.isGone(() => this.client.get(Namespace, { name })));
  }

  /** Closes the connection and deletes nothing, for a server that is stopped anyway. */
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

  /** Returns the pods that the job controller created for a Job. */
  async podsOf(job: ObjectKey): Promise<readonly Pod[]> {
    const { namespace = '', name } = job;
    const list = await this.client.list(Pod, { namespace, labelSelector: `batch.kubernetes.io/job-name=${name}` });
    return list.items;
  }

  /** Writes the status that a kubelet reports for a container with an exit code, for each pod of the Job. */
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
  async job(key: ObjectKey, otherThan?: string): Promise<Job> {
    return eventually(`Job ${key.name} exists`, async () => {
      const job = await this.client.get(Job, key);
      return job.metadata.uid !== otherThan && job.metadata.deletionTimestamp === undefined && job;
    });
  }
}
