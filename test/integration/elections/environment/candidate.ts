/**
 * A program that contends for each of its locks with a LeaderElector, again and again, each time with a new identity.
 * While it leads it writes to the lock's ledger, a ConfigMap of the same name, without waiting for responses, so that
 * writes are always in flight and, if no response arrives, also queued. Each write carries the resourceVersion that it
 * is based on. SIGTERM ends it as it ends an operator.
 */

import { randomUUID } from 'node:crypto';
import { subscribe } from 'node:diagnostics_channel';
import { setTimeout as delay } from 'node:timers/promises';
import { type Client, type Logger, Manager } from '@echoperator/runtime';
import type { ReflectorOptions } from '@echoperator/runtime/cache';
import type { Gate } from '@echoperator/runtime/client';
import { ConfigMap } from '@echoperator/runtime/kinds';
import { LeaderElector, LeadershipLostError, type LeaseTimings } from '@echoperator/runtime/leader-election';
import { Metrics } from '@echoperator/runtime/process';
import { Registry } from 'prom-client';
import { HttpClient } from '../../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { markLabel, namespace, writerAnnotation } from './history.ts';
import { Journal } from './journal.ts';
import { monotonicMs } from './monotonic.ts';

export interface CandidateSettings {
  /** A plain HTTP URL. */
  readonly server: string;
  readonly name: string;
  readonly locks: readonly string[];
  readonly timings: LeaseTimings;
  readonly journal: string;
  /** The time between two writes of a leader. Absent: it does not write. */
  readonly writeEveryMs?: number;
  /** How many of its writes, to all locks, may be in flight; others are queued. */
  readonly connections?: number;
  /** How its informer lists ConfigMaps. The journal records the marked ones. Absent: it has no informer. */
  readonly listing?: ReflectorOptions['listing'];
}

const maxWritesInFlight = 4;
/** After it the next write starts, so that a leader without network keeps writing until its fence closes. */
const writeTimeoutMs = 500;

/** The smallest change of the wall clock against the monotonic one that the journal records. */
const clockMovedMs = 200;

const log: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => log };

/** The last request that passed a fence. Undici sends a request in the same turn of the event loop. */
let passed: { readonly lock: string; readonly identity: string; readonly passedAt: number } | undefined;

/** Records when a request asked to pass the fence. It reads the clock first, so that the time is not too late. */
function recordPasses(fence: Gate, lock: string, identity: string): Gate {
  return {
    pass: () => {
      const passedAt = monotonicMs();
      fence.pass();
      passed = { lock, identity, passedAt };
    },
    get signal() {
      return fence.signal;
    },
  };
}

function recordRequests(journal: Journal): void {
  subscribe('undici:client:sendHeaders', (message) => {
    const { request } = message as { readonly request: { readonly path: string } };
    if (!request.path.includes('/configmaps')) return;
    const at = monotonicMs();
    // A request that passed no fence gets an identity that never held the lock.
    const { lock, identity, passedAt } = passed ?? { lock: request.path, identity: 'past the fence', passedAt: at };
    passed = undefined;
    journal.write({ type: 'begun', lock, identity, passedAt, at });
  });
}

function recordClockChanges(journal: Journal, signal: AbortSignal): void {
  let before = Date.now() - monotonicMs();
  const timer = setInterval(() => {
    const ahead = Date.now() - monotonicMs();
    const byMs = ahead - before;
    if (Math.abs(byMs) < clockMovedMs) return;
    journal.write({ type: 'clock', byMs, at: monotonicMs() });
    before = ahead;
  }, 50);
  signal.addEventListener('abort', () => clearInterval(timer), { once: true });
}

/** Writes to a ledger until the signal is aborted, and waits for the writes in flight. */
async function keepLedger(client: Client, lock: string, identity: string, everyMs: number, stop: AbortSignal) {
  const key = { namespace, name: lock };
  const inFlight = new Set<Promise<void>>();
  let ledger: ConfigMap | undefined;
  const write = async (): Promise<void> => {
    try {
      const base = ledger ?? (await client.get(ConfigMap, key));
      const annotations = { [writerAnnotation]: identity };
      ledger = await client.update(ConfigMap, { ...base, metadata: { ...base.metadata, annotations } });
    } catch {
      // Whatever the error, the next write starts from the current ledger.
      ledger = undefined;
    }
  };
  while (!stop.aborted) {
    if (inFlight.size < maxWritesInFlight) {
      const one = write().finally(() => inFlight.delete(one));
      inFlight.add(one);
    }
    await delay(everyMs, undefined, { signal: stop }).catch(() => {});
  }
  await Promise.all(inFlight);
}

/** Runs an informer of ConfigMaps, like an operator's. */
async function runInformer(client: Client, listing: ReflectorOptions['listing'], journal: Journal, stop: AbortSignal) {
  const manager = new Manager({ client, log, metrics: new Metrics(new Registry()) });
  const informer = manager.informer(ConfigMap, { namespaces: [namespace], ...(listing && { listing }) });
  informer.addHandler(({ type, object }) => {
    const mark = object.metadata.labels?.[markLabel];
    if (type !== 'deleted' && mark !== undefined) journal.write({ type: 'mark', mark, at: monotonicMs() });
  });
  await manager.run(stop);
}

async function main(settings: CandidateSettings): Promise<void> {
  const { server, name, locks, timings, journal: path, writeEveryMs, connections = 32, listing } = settings;
  const stop = new AbortController();
  process.once('SIGTERM', () => stop.abort());
  const journal = new Journal(path);
  recordClockChanges(journal, stop.signal);
  recordRequests(journal);
  const connection = { server: new URL(server), tls: {}, authentication: async () => ({}) };
  const electing = new Transport(connection, { userAgent: name });
  const informed = new Transport(connection, { userAgent: name });
  const working = new Transport(connection, { userAgent: name, connections, timeoutMs: writeTimeoutMs });

  const lead = async (elector: LeaderElector, lock: string, identity: string, signal: AbortSignal): Promise<void> => {
    journal.write({ type: 'leading', lock, identity, at: monotonicMs() });
    const client = new HttpClient(working, name, { gate: recordPasses(elector.fence, lock, identity) });
    if (writeEveryMs !== undefined) await keepLedger(client, lock, identity, writeEveryMs, signal);
    else await delay(2 ** 31 - 1, undefined, { signal }).catch(() => {});
    journal.write({ type: 'ended', lock, identity, at: monotonicMs() });
  };
  const contendOnce = async (lock: string): Promise<void> => {
    const identity = `${name}_${randomUUID()}`;
    const elector = new LeaderElector({
      client: new HttpClient(electing, name),
      lease: { namespace, name: lock },
      identity,
      timings,
      log,
    });
    try {
      await elector.run(stop.signal, (signal) => lead(elector, lock, identity, signal));
    } catch (error) {
      if (!(error instanceof LeadershipLostError)) throw error;
    }
  };
  const informing = listing && runInformer(new HttpClient(informed, name), listing, journal, stop.signal);
  await Promise.all(
    locks.map(async (lock) => {
      while (!stop.signal.aborted) await contendOnce(lock);
    }),
  );
  await informing;
  await informed.close();
  await electing.close();
  await working.close();
}

await main(JSON.parse(process.env.CANDIDATE_SETTINGS ?? '') as CandidateSettings);
