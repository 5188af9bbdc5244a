/**
 * The program under test: a manager with a mirror. It has its own process, so that its heap can be measured and its
 * clock changed. It answers the questions of the test that started it.
 */

import { type KubeObject, type Logger, Manager, type ReadonlyStore } from '@echoperator/runtime';
import type { ReflectorOptions } from '@echoperator/runtime/cache';
import type { Connection } from '@echoperator/runtime/client';
import { Metrics } from '@echoperator/runtime/process';
import { Registry } from 'prom-client';
import { HttpClient } from '../../../../packages/runtime/src/client/http-client.ts';
import { inClusterConnection } from '../../../../packages/runtime/src/client/in-cluster.ts';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { Mirror, type Reconciled } from './mirror.ts';

export interface SubjectSettings {
  readonly server: string;
  readonly tls: Connection['tls'];
  /** A folder with a token, like a pod's. Absent if the server needs no token. */
  readonly serviceAccount?: string;
  readonly namespace: string;
  /** The informers' options. Default: the runtime's. */
  readonly watching?: ReflectorOptions;
}

/** The questions and the types of their answers. */
export interface Questions {
  readonly ready: boolean;
  /** The contents of the stores: resourceVersions by name. */
  readonly stores: { readonly echos: Versions; readonly copies: Versions };
  readonly reconciled: { readonly [name: string]: Reconciled };
  readonly reconciles: number;
  /** Bytes in use after a garbage collection. */
  readonly heap: number;
  /** The process's clock, in milliseconds since 1970. */
  readonly clock: number;
  /** The log lines of level warn and error. */
  readonly warnings: readonly string[];
}

export type Versions = { readonly [name: string]: string };

export interface Question {
  readonly id: number;
  readonly ask: keyof Questions;
}

const warnings: string[] = [];

/** Keeps the last warnings for the message of a failed test. */
const log: Logger = {
  debug: () => {},
  info: () => {},
  warn: keep,
  error: keep,
  child: () => log,
};

function keep(details: object, message: string): void {
  if (warnings.length === 50) warnings.shift();
  const { err } = details as { readonly err?: unknown };
  warnings.push(err === undefined ? message : `${message}: ${err}`);
}

/** Some objects are garbage only after pending events of the event loop. A second collection frees them. */
async function collectedHeap(): Promise<number> {
  for (let round = 0; round < 3; round += 1) {
    await new Promise((resolve) => setImmediate(resolve));
    globalThis.gc?.();
  }
  return process.memoryUsage().heapUsed;
}

function versions(store: ReadonlyStore<KubeObject>): Versions {
  return Object.fromEntries([...store.list()].map(({ metadata }) => [metadata.name, metadata.resourceVersion]));
}

async function connectionOf({ server, tls, serviceAccount }: SubjectSettings): Promise<Connection> {
  const url = new URL(server);
  if (serviceAccount === undefined) return { server: url, tls, authentication: async () => ({}) };
  const environment = { KUBERNETES_SERVICE_HOST: url.hostname, KUBERNETES_SERVICE_PORT: url.port };
  return inClusterConnection(environment, serviceAccount);
}

async function main(settings: SubjectSettings): Promise<void> {
  const transport = new Transport(await connectionOf(settings), { userAgent: 'subject', timeoutMs: 5_000 });
  const client = new HttpClient(transport, 'subject');
  const manager = new Manager({ client, log, metrics: new Metrics(new Registry()) });
  const mirror = new Mirror(manager, settings.namespace, settings.watching ?? {});
  const answers: { readonly [K in keyof Questions]: () => Questions[K] | Promise<Questions[K]> } = {
    ready: () => manager.readiness().ready,
    stores: () => ({
      echos: versions(mirror.echos.store),
      copies: versions(mirror.copies.store),
    }),
    reconciled: () => Object.fromEntries(mirror.reconciled),
    reconciles: () => mirror.reconciles,
    heap: collectedHeap,
    clock: () => Date.now(),
    warnings: () => warnings,
  };
  process.on('message', async ({ id, ask }: Question) => {
    process.send?.({ id, answer: await answers[ask]() });
  });
  const stop = new AbortController();
  // The process that started this one has ended.
  process.once('disconnect', () => stop.abort());
  process.once('SIGTERM', () => stop.abort());
  await manager.run(stop.signal);
  await transport.close();
  process.disconnect?.();
}

await main(JSON.parse(process.env.SUBJECT_SETTINGS ?? '') as SubjectSettings);
