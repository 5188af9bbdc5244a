import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Echo } from '../../src/api/index.ts';
import { echoJob } from '../../src/controllers/echo/echo-job.ts';
import { echoReasons, outcomeOf } from '../../src/controllers/echo/echo-reconciler.ts';
import { desiredStatus, statusPatch } from '../../src/runtime/controller/index.ts';
import type { KubeObject } from '../../src/runtime/index.ts';
import type { Job } from '../../src/runtime/kinds/index.ts';
import { podSettings } from '../../testkit/pod-settings.ts';

/** The list of pods is empty, because nothing runs the Jobs. */
type Resource = 'echos' | 'jobs' | 'pods';

const namespace = 'bench';
const sentinel = 'sentinel-';
const apiVersions = { echos: 'mmontes.io/v1alpha1', jobs: 'batch/v1', pods: 'v1' } as const;
const lists = { echos: 'EchoList', jobs: 'JobList', pods: 'PodList' } as const;

/** A path of the API, with an optional namespace, name and subresource. */
const pathPattern = /^\/(?:api\/v1|apis\/[^/]+\/[^/]+)(?:\/namespaces\/[^/]+)?\/(\w+)(?:\/([^/]+))?(?:\/(\w+))?$/;

/**
 * Simulates an API server with Echos that each have their Job and status, so the operator has nothing to write. A real API server would
 * take minutes to fill, and would use half of the processors to send events.
 *
 * After each batch of changes it sends a sentinel: an Echo without a Job. When the operator creates that Job, it has handled all events
 * before.
 */
export class ScriptedCluster {
  readonly #server: Server;
  readonly #size: number;
  readonly #watches = new Map<Resource, ServerResponse>();
  readonly #sentinels = new Map<string, Echo>();
  readonly #needless: string[] = [];
  #resourceVersion = 1000;
  #changes = 0;
  #jobCreated: ((name: string) => void) | undefined;

  private constructor(server: Server, size: number) {
    this.#server = server;
    this.#size = size;
    server.on('request', (request, response) => void this.#answer(request, response));
  }

  static async start(size: number): Promise<ScriptedCluster> {
    const server = createServer();
    const cluster = new ScriptedCluster(server, size);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return cluster;
  }

  /** A kubeconfig for this server, as JSON. */
  get kubeconfig(): string {
    const { port } = this.#server.address() as AddressInfo;
    const name = 'scripted';
    return JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      // KubeConfig refuses a server without TLS that is not declared to be insecure.
      clusters: [{ name, cluster: { server: `http://127.0.0.1:${port}`, 'insecure-skip-tls-verify': true } }],
      users: [{ name, user: {} }],
      contexts: [{ name, context: { cluster: name, user: name } }],
      'current-context': name,
    });
  }

  /** The writes for Echos that needed none. */
  get needlessWrites(): readonly string[] {
    return this.#needless;
  }

  /** Changes `count` Echos one after the other, and waits until the operator has handled the events. */
  async change(count: number, signal: AbortSignal): Promise<void> {
    const watch = await this.#watch('echos', signal);
    for (let sent = 0; sent < count; sent++) {
      // With a prime step no Echo changes twice in a batch, and consecutive events are for distant Echos.
      const echo = this.#echo((this.#changes++ * 7919) % this.#size, ++this.#resourceVersion);
      if (!send(watch, 'MODIFIED', echo)) await once(watch, 'drain', { signal });
    }
    const last = bareEcho(`${sentinel}${this.#changes}`, ++this.#resourceVersion);
    this.#sentinels.set(last.metadata.name, last);
    const seen = new Promise<void>((resolve, reject) => {
      this.#jobCreated = (name) => {
        if (name === last.metadata.name) resolve();
      };
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
    send(watch, 'ADDED', last);
    await seen;
  }

  async stop(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }

  async #watch(resource: Resource, signal: AbortSignal): Promise<ServerResponse> {
    for (;;) {
      const watch = this.#watches.get(resource);
      if (watch !== undefined) return watch;
      await delay(10, undefined, { signal });
    }
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://localhost');
    const [, resource = '', name] = pathPattern.exec(pathname) ?? [];
    if (request.method !== 'GET') this.#write(request.method, resource, name, Buffer.concat(chunks), response);
    else if ((resource === 'echos' || resource === 'jobs' || resource === 'pods') && name === undefined) {
      this.#read(resource, searchParams, response);
    } else refuse(response, 404, 'NotFound');
  }

  #read(resource: Resource, query: URLSearchParams, response: ServerResponse): void {
    if (query.get('watch') === null) {
      respond(response, 200, this.#page(resource, query));
      return;
    }
    // Like a server without streaming lists.
    if (query.get('sendInitialEvents') === 'true') {
      refuse(response, 422, 'Invalid');
      return;
    }
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    this.#watches.set(resource, response);
  }

  #page(resource: Resource, query: URLSearchParams): object {
    const from = Number(query.get('continue') ?? 0);
    const size = resource === 'pods' ? 0 : this.#size;
    const to = Math.min(size, from + Number(query.get('limit') ?? size));
    const items: KubeObject[] = [];
    for (let index = from; index < to; index++) {
      const echo = this.#echo(index, 1000);
      items.push(resource === 'echos' ? echo : jobOf(echo));
    }
    const metadata = {
      resourceVersion: '1000',
      ...(to < size && { continue: String(to), remainingItemCount: size - to }),
    };
    return { kind: lists[resource], apiVersion: apiVersions[resource], metadata, items };
  }

  #write(verb = '', resource: string, name: string | undefined, body: Buffer, response: ServerResponse): void {
    const sent = JSON.parse(body.toString()) as KubeObject & { readonly status?: NonNullable<Echo['status']> };
    const target = name ?? sent.metadata.name;
    if (!target.startsWith(sentinel)) this.#needless.push(`${verb} ${resource} ${target}`);
    const resourceVersion = String(++this.#resourceVersion);
    const echo = this.#sentinels.get(target);
    if (resource === 'echos' && echo !== undefined) {
      const patched = {
        ...echo,
        metadata: { ...echo.metadata, resourceVersion },
        ...(sent.status && { status: sent.status }),
      };
      this.#sentinels.delete(target);
      this.#sendEvent('echos', 'MODIFIED', patched);
      respond(response, 200, patched);
      return;
    }
    const made = { ...sent, metadata: { ...sent.metadata, uid: `uid-of-${resource}-${target}`, resourceVersion } };
    respond(response, 201, made);
    if (resource !== 'jobs') return;
    this.#sendEvent('jobs', 'ADDED', made);
    this.#jobCreated?.(target);
  }

  #sendEvent(resource: Resource, type: string, object: KubeObject): void {
    const watch = this.#watches.get(resource);
    if (watch !== undefined) send(watch, type, object);
  }

  /** Returns the Echo at a resourceVersion. Each version has another annotation. */
  #echo(index: number, resourceVersion: number): Echo {
    const bare = bareEcho(`echo-${String(index).padStart(6, '0')}`, resourceVersion);
    const desired = desiredStatus(echoReasons, bare, outcomeOf(bare, jobOf(bare)), new Date(0));
    const status = statusPatch(bare.status, desired) as NonNullable<Echo['status']>;
    return { ...bare, status: withoutNull(status) };
  }
}

const bareEcho = (name: string, resourceVersion: number): Echo => ({
  apiVersion: apiVersions.echos,
  kind: 'Echo',
  metadata: {
    name,
    namespace,
    uid: `uid-of-${name}`,
    resourceVersion: String(resourceVersion),
    generation: 1,
    creationTimestamp: '2026-01-01T00:00:00Z',
    annotations: { 'mmontes.io/change': String(resourceVersion) },
  },
  spec: { message: `Hola, ${name}!` },
});

function jobOf(echo: Echo): Job {
  const made = echoJob(echo, podSettings);
  const { uid } = echo.metadata;
  return {
    ...made,
    apiVersion: apiVersions.jobs,
    kind: 'Job',
    metadata: { ...made.metadata, name: echo.metadata.name, uid: `job-${uid}`, resourceVersion: '1000' },
    status: {},
  } as Job;
}

/** Returns the result of a merge patch on an empty object. */
const withoutNull = <T extends object>(patch: T): T =>
  Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== null)) as T;

function send(watch: ServerResponse, type: string, object: KubeObject): boolean {
  return watch.write(`${JSON.stringify({ type, object })}\n`);
}

function respond(response: ServerResponse, code: number, body: object): void {
  response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function refuse(response: ServerResponse, code: number, reason: string): void {
  respond(response, code, { kind: 'Status', apiVersion: 'v1', status: 'Failure', message: reason, reason, code });
}
