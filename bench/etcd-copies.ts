import { randomUUID } from 'node:crypto';
import type { KubeObject } from '@echoperator/runtime';
import { Job } from '@echoperator/runtime/kinds';
import { forEachConcurrently } from '../packages/testing/src/for-each-concurrently.ts';
import { type ApiServer, namespace } from './api-server.ts';
import { populate } from './load.ts';

/** etcd takes at most 128 operations in a transaction. Each copy takes two. */
const copiesPerTransaction = 60;
const concurrentTransactions = 8;

const keyOf = (resource: string, name: string): string => `/registry/${resource}/${namespace}/${name}`;
const echos = 'mmontes.io/echos';
const jobs = 'jobs';

/**
 * An Echo with its Job and status, and copies of it, which are written into etcd. The API server takes minutes to
 * create 250,000 objects, and etcd 30 s. An API server reads objects of built-in kinds also as JSON.
 */
export class EchoTemplate {
  readonly #server: ApiServer;
  readonly #name: string;
  readonly #uid: string;
  readonly #jobUid: string;
  readonly #echo: string;
  readonly #job: string;

  private constructor(server: ApiServer, echo: string, job: KubeObject) {
    this.#server = server;
    const { metadata } = JSON.parse(echo) as KubeObject;
    this.#name = metadata.name;
    this.#uid = metadata.uid;
    this.#jobUid = job.metadata.uid;
    this.#echo = echo;
    // etcd has the resourceVersion of an object.
    const stored = { ...job, metadata: { ...job.metadata, resourceVersion: undefined } };
    this.#job = JSON.stringify({ apiVersion: 'batch/v1', kind: 'Job', ...stored });
  }

  /** Creates the template. @param prefix of its name */
  static async create(server: ApiServer, prefix: string): Promise<EchoTemplate> {
    await populate(server.client, prefix, 1);
    const {
      items: [job],
    } = await server.client.list(Job, { namespace });
    if (job === undefined) throw new Error('the template has no Job');
    const stored = await post<Range>(server, 'range', { key: encoded(keyOf(echos, job.metadata.name)) });
    const [echo] = stored.kvs ?? [];
    if (echo === undefined) throw new Error('etcd has no Echo with the name of the Job');
    return new EchoTemplate(server, Buffer.from(echo.value, 'base64').toString(), job);
  }

  /** Writes copies with these numbers, and waits until the API server serves them. @param to exclusive */
  async copy(prefix: string, from: number, to: number): Promise<void> {
    const starts = Array.from(
      { length: Math.ceil((to - from) / copiesPerTransaction) },
      (_, index) => from + index * copiesPerTransaction,
    );
    const write = async (start: number): Promise<void> => {
      const count = Math.min(copiesPerTransaction, to - start);
      const success = Array.from({ length: count }, (_, index) => this.#puts(`${prefix}${start + index}`)).flat();
      await post(this.#server, 'txn', { success });
    };
    await forEachConcurrently(starts, write, concurrentTransactions);
    // Without a resourceVersion, a list contains everything that etcd has.
    await this.#server.client.list(Job, { namespace, limit: 1 });
  }

  #puts(name: string): readonly object[] {
    const [uid, jobUid] = [randomUUID(), randomUUID()];
    const named = (text: string): string =>
      text.replaceAll(this.#name, name).replaceAll(this.#uid, uid).replaceAll(this.#jobUid, jobUid);
    const put = (resource: string, text: string) => ({
      request_put: { key: encoded(keyOf(resource, name)), value: encoded(named(text)) },
    });
    return [put(echos, this.#echo), put(jobs, this.#job)];
  }
}

interface Range {
  readonly kvs?: readonly { readonly value: string }[];
}

const encoded = (text: string): string => Buffer.from(text).toString('base64');

/** Calls etcd's JSON API (https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/). @throws Error if it refuses */
async function post<T>({ etcd }: ApiServer, method: 'range' | 'txn', body: object): Promise<T> {
  const response = await fetch(`${etcd}/v3/kv/${method}`, { method: 'POST', body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`etcd refused ${method}: ${await response.text()}`);
  return (await response.json()) as T;
}
