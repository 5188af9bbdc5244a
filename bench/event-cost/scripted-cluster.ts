import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import type { KubeObject } from '@echoperator/runtime';
import { childManifest, desiredStatus } from '@echoperator/runtime/controller';
import { Job } from '@echoperator/runtime/kinds';
import { statusPatch } from '../../packages/runtime/src/kind/status-patch.ts';
import { echoReasons, outcomeOf } from '../../src/kinds/echo/controller.ts';
import { echoJob } from '../../src/kinds/echo/echo-job.ts';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { podSettings } from '../../testkit/pod-settings.ts';

/**
 * The list of pods is empty, because nothing runs the Jobs. The list of CronJobs, which our operator compares with the
 * names of Echos, is empty too.
 */
type Resource = 'echos' | 'jobs' | 'pods' | 'cronjobs';

const namespace = 'bench';
const sentinel = 'sentinel-';
const sentinelPattern = /sentinel-\d+/;
/** The resourceVersion of the lists. */
const firstVersion = 1000;
const apiVersions = { echos: 'mmontes.io/v1alpha1', jobs: 'batch/v1', pods: 'v1', cronjobs: 'batch/v1' } as const;
const lists = { echos: 'EchoList', jobs: 'JobList', pods: 'PodList', cronjobs: 'CronJobList' } as const;

/** The paths that client-go requests to discover the resources of a kind. */
const discovery: Readonly<Record<string, object>> = {
  '/apis': {
    kind: 'APIGroupList',
    apiVersion: 'v1',
    groups: ['mmontes.io/v1alpha1', 'batch/v1'].map((groupVersion) => {
      const [name, version] = groupVersion.split('/');
      return { name, versions: [{ groupVersion, version }], preferredVersion: { groupVersion, version } };
    }),
  },
  '/apis/mmontes.io/v1alpha1': resourceList('mmontes.io/v1alpha1', 'echos', 'Echo'),
  '/apis/batch/v1': resourceList('batch/v1', 'jobs', 'Job'),
};

const isListed = (resource: string): resource is Resource => Object.hasOwn(lists, resource);

/** A path of the API, with an optional namespace, name and subresource. */
const pathPattern = /^\/(?:api\/v1|apis\/[^/]+\/[^/]+)(?:\/namespaces\/[^/]+)?\/(\w+)(?:\/([^/]+))?(?:\/(\w+))?$/;

/**
 * Simulates an API server with Echos that each have a finished Job and its status, so the operator has nothing to
 * write. A real API server would take minutes to fill, and would use half of the processors to send events.
 *
 * An event changes the generation of an Echo, so that every operator reconciles the Echo. The status already fits the
 * new generation.
 *
 * After each batch of changes the cluster sends a sentinel: an Echo without a Job. When the operator creates that Job,
 * it has received all earlier events, and has reconciled all Echos except those in flight. A work queue without order,
 * such as kube-rs's, may still hold some keys.
 */
export class ScriptedCluster {
  readonly #server: Server;
  readonly #size: number;
  readonly #watches = new Map<Resource, ServerResponse>();
  /** By the name of the Echo and of its Job. */
  readonly #sentinels = new Map<string, Echo>();
  readonly #needless: string[] = [];
  #resourceVersion = firstVersion;
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

  /** The writes for Echos that needed no write. */
  get needlessWrites(): readonly string[] {
    return this.#needless;
  }

  /** Changes `count` Echos one after the other, and waits until the operator has handled the events. */
  async change(count: number, signal: AbortSignal): Promise<void> {
    const watch = await this.#watch('echos', signal);
    for (let sent = 0; sent < count; sent++) {
      // With a prime step no Echo changes twice in a batch, and consecutive events are for distant Echos.
      const version = ++this.#resourceVersion;
      const echo = finishedEcho((this.#changes++ * 7919) % this.#size, version, version);
      if (!send(watch, 'MODIFIED', echo)) await once(watch, 'drain', { signal });
    }
    const last = bareEcho(`${sentinel}${this.#changes}`, ++this.#resourceVersion, 1);
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
    const body = await text(request);
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://localhost');
    const [, resource = '', name = ''] = pathPattern.exec(pathname) ?? [];
    const found = discovery[pathname];
    if (found !== undefined) respond(response, 200, found);
    else if (request.method !== 'GET') this.#write(request.method, resource, name, body, response);
    else if (isListed(resource) && name === '') {
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
    const size = resource === 'echos' || resource === 'jobs' ? this.#size : 0;
    const to = Math.min(size, from + Number(query.get('limit') ?? size));
    const items: KubeObject[] = [];
    for (let index = from; index < to; index++) {
      const echo = finishedEcho(index, firstVersion, 1);
      items.push(resource === 'echos' ? echo : jobOf(echo, finished));
    }
    const metadata = {
      resourceVersion: String(firstVersion),
      ...(to < size && { continue: String(to), remainingItemCount: size - to }),
    };
    return { kind: lists[resource], apiVersion: apiVersions[resource], metadata, items };
  }

  #write(verb = '', resource: string, name: string, body: string, response: ServerResponse): void {
    // client-go sends a Job as protobuf, in which a name is text too.
    const target = sentinelPattern.exec(`${name} ${body}`)?.[0];
    const echo = target === undefined ? undefined : this.#sentinels.get(target);
    if (echo === undefined) {
      this.#needless.push(`${verb} ${resource} ${name}`);
      refuse(response, 404, 'NotFound');
      return;
    }
    const resourceVersion = String(++this.#resourceVersion);
    if (resource === 'echos') {
      const { status } = JSON.parse(body) as Pick<Echo, 'status'>;
      const patched = { ...echo, metadata: { ...echo.metadata, resourceVersion }, ...(status && { status }) };
      this.#sendEvent('echos', 'MODIFIED', patched);
      respond(response, 200, patched);
    } else if (resource === 'jobs') {
      const made = jobOf(echo, {});
      const job = { ...made, metadata: { ...made.metadata, resourceVersion } };
      respond(response, 201, job);
      this.#sendEvent('jobs', 'ADDED', job);
      this.#jobCreated?.(echo.metadata.name);
    } else {
      respond(response, 201, { kind: 'Event', apiVersion: 'events.k8s.io/v1', metadata: { name: target, namespace } });
    }
  }

  #sendEvent(resource: Resource, type: string, object: KubeObject): void {
    const watch = this.#watches.get(resource);
    if (watch !== undefined) send(watch, type, object);
  }
}

function resourceList(groupVersion: string, name: string, kind: string): object {
  const resource = { name, singularName: kind.toLowerCase(), namespaced: true, kind, verbs: ['get', 'list', 'watch'] };
  return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources: [resource] };
}

const bareEcho = (name: string, resourceVersion: number, generation: number): Echo => ({
  apiVersion: apiVersions.echos,
  kind: 'Echo',
  metadata: {
    name,
    namespace,
    uid: `uid-of-${name}`,
    resourceVersion: String(resourceVersion),
    generation,
    creationTimestamp: then,
  },
  spec: { message: `Hola, ${name}!` },
});

const then = '2026-01-01T00:00:00Z';

const finished: Job['status'] = {
  succeeded: 1,
  startTime: then,
  completionTime: then,
  conditions: [{ type: 'Complete', status: 'True', lastTransitionTime: then }],
};

/** Returns an Echo whose status fits its generation: its Job has printed the message. */
function finishedEcho(index: number, resourceVersion: number, generation: number): Echo {
  const bare = bareEcho(`echo-${String(index).padStart(6, '0')}`, resourceVersion, generation);
  const desired = desiredStatus(echoReasons, bare, outcomeOf(bare, jobOf(bare, finished)), new Date(then));
  const status = statusPatch(bare.status, desired) as NonNullable<Echo['status']>;
  return { ...bare, status: withoutNull(status) };
}

function jobOf(echo: Echo, status: Job['status']): Job {
  const made = childManifest({ kind: Echo, object: echo }, Job, echoJob(echo, podSettings));
  const { name, uid } = echo.metadata;
  const metadata = { ...made.metadata, name, uid: `job-${uid}`, resourceVersion: String(firstVersion) };
  return { ...made, apiVersion: apiVersions.jobs, kind: 'Job', metadata, status } as Job;
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
