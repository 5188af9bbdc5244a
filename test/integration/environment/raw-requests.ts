import { readFile } from 'node:fs/promises';
import { Agent, request } from 'node:https';
import { text } from 'node:stream/consumers';
import { parse } from 'yaml';

/** An answer of the API server. `text` is the object's metadata, or what is wrong. */
export interface RawResponse {
  readonly code: number;
  readonly text: string;
}

const onlyMetadata = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json';

/** Sends requests whose bodies JSON.stringify cannot make, because they are nested deeply. */
export class RawRequests implements Disposable {
  readonly #server: string;
  readonly #agent: Agent;

  private constructor(server: string, agent: Agent) {
    this.#server = server;
    this.#agent = agent;
  }

  /** @param kubeconfig of a test's API server, with embedded certificates */
  static async connect(kubeconfig: string): Promise<RawRequests> {
    const { clusters, users } = parse(await readFile(kubeconfig, 'utf8'));
    const { cluster } = clusters[0];
    const { user } = users[0];
    const decoded = (data: string) => Buffer.from(data, 'base64');
    const agent = new Agent({
      keepAlive: true,
      maxSockets: 8,
      ca: decoded(cluster['certificate-authority-data']),
      cert: decoded(user['client-certificate-data']),
      key: decoded(user['client-key-data']),
    });
    return new RawRequests(cluster.server, agent);
  }

  async send(
    method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
    path: string,
    json?: string,
    patchType = 'application/merge-patch+json',
    accept = method === 'GET' ? 'application/json' : onlyMetadata,
  ): Promise<RawResponse> {
    const { promise, resolve, reject } = Promise.withResolvers<RawResponse>();
    const headers = {
      accept,
      'content-type': method === 'PATCH' ? patchType : 'application/json',
    };
    const sent = request(new URL(path, this.#server), { agent: this.#agent, method, headers }, (response) => {
      text(response).then((body) => resolve({ code: response.statusCode ?? 0, text: body }), reject);
    });
    sent.on('error', reject);
    sent.end(json);
    return promise;
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }
}
