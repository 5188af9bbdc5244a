/**
 * A candidate of ours, as a program: it stands for every lock it is named, again and again, each time under an identity of
 * its own. While it leads it writes to the lock's ledger, a ConfigMap of the same name, as fast as it may, without waiting
 * for answers: there is always something on its way, and where nothing comes back also something queued. Each write
 * carries the resourceVersion of what it is based on. SIGTERM ends it as it would end an operator.
 */
import { randomUUID } from 'node:crypto';
import { subscribe } from 'node:diagnostics_channel';
import { setTimeout as delay } from 'node:timers/promises';
import { Registry } from 'prom-client';
import type { ReflectorOptions } from '../../../../src/runtime/cache/index.ts';
import { HttpClient } from '../../../../src/runtime/client/http-client.ts';
import type { Gate } from '../../../../src/runtime/client/index.ts';
import { Transport } from '../../../../src/runtime/client/transport.ts';
import { type Client, type Logger, Manager } from '../../../../src/runtime/index.ts';
import {
  LeaderElector,
  LeadershipLostError,
  type LeaseTimings,
} from '../../../../src/runtime/leader-election/index.ts';
import { Metrics } from '../../../../src/runtime/process/index.ts';
import { ConfigMap } from '../../../../testkit/kinds.ts';
import { markLabel, namespace, writerAnnotation } from './history.ts';
import { Journal } from './journal.ts';
import { monotonicMs } from './monotonic.ts';

export interface CandidateSettings {
  /** Speaks plain HTTP. */
  readonly server: string;
  readonly name: string;
  readonly locks: readonly string[];
  readonly timings: LeaseTimings;
  readonly journal: string;
  /** How often a leader writes; absent: it only elects. */
  readonly writeEveryMs?: number;
  /** How many of its writes, to all locks, may be on their way at once; others wait. */
  readonly connections?: number;
  /** How its informer lists ConfigMaps, of which the journal names those that are marked; absent: it has none. */
  readonly listing?: ReflectorOptions['listing'];
}

const writesUnderWay = 4;
/** A write that is not answered makes room for another, so that a leader that is cut off goes on until its fence closes. */
const writeTimeoutMs = 500;

/** How far the wall clock may go apart from the monotonic one before the journal tells. */
const clockMovedMs = 200;

const log: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => log };

/** What passed the fence last. Undici writes the request in the same turn in which it lets it begin. */
let passed: { readonly lock: string; readonly identity: string; readonly passedAt: number } | undefined;

/** The fence, and a note of when it was asked. The note is made before: what is let through began to be so by then. */
function noting(fence: Gate, lock: string, identity: string): Gate {
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

function noteRequests(journal: Journal): void {
  subscribe('undici:client:sendHeaders', (message) => {
    const { request } = message as { readonly request: { readonly path: string } };
    if (!request.path.includes('/configmaps')) return;
    const at = monotonicMs();
    // The name of nobody who has ever held the lock: a request that no fence has seen.
    const { lock, identity, passedAt } = passed ?? { lock: request.path, identity: 'past the fence', passedAt: at };
    passed = undefined;
    journal.write({ type: 'begun', lock, identity, passedAt, at });
  });
}

function noteClock(journal: Journal, signal: AbortSignal): void {
  let before = Date.now() - monotonicMs();
  const look = setInterval(() => {
    const ahead = Date.now() - monotonicMs();
    const byMs = ahead - before;
    if (Math.abs(byMs) < clockMovedMs) return;
    journal.write({ type: 'clock', byMs, at: monotonicMs() });
    before = ahead;
  }, 50);
  signal.addEventListener('abort', () => clearInterval(look), { once: true });
}

/** Writes to a ledger until the signal is aborted, and waits for what is under way. */
async function keepLedger(client: Client, lock: string, identity: string, everyMs: number, stop: AbortSignal) {
  const key = { namespace, name: lock };
  const underWay = new Set<Promise<void>>();
  let ledger: ConfigMap | undefined;
  const write = async (): Promise<void> => {
    try {
      const base = ledger ?? (await client.get(ConfigMap, key));
      const annotations = { [writerAnnotation]: identity };
      ledger = await client.update(ConfigMap, { ...base, metadata: { ...base.metadata, annotations } });
    } catch {
      // Whatever it was: what is written next is based on what is there then.
      ledger = undefined;
    }
  };
  while (!stop.aborted) {
    if (underWay.size < writesUnderWay) {
      const one = write().finally(() => underWay.delete(one));
      underWay.add(one);
    }
    await delay(everyMs, undefined, { signal: stop }).catch(() => {});
  }
  await Promise.all(underWay);
}

/** An informer of ConfigMaps, as an operator has it. */
async function inform(client: Client, listing: ReflectorOptions['listing'], journal: Journal, stop: AbortSignal) {
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
  noteClock(journal, stop.signal);
  noteRequests(journal);
  const connection = { server: new URL(server), tls: {}, authentication: async () => ({}) };
  const electing = new Transport(connection, { userAgent: name });
  const informed = new Transport(connection, { userAgent: name });
  const working = new Transport(connection, { userAgent: name, connections, timeoutMs: writeTimeoutMs });

  const lead = async (elector: LeaderElector, lock: string, identity: string, signal: AbortSignal): Promise<void> => {
    journal.write({ type: 'leading', lock, identity, at: monotonicMs() });
    const client = new HttpClient(working, name, { gate: noting(elector.fence, lock, identity) });
    if (writeEveryMs !== undefined) await keepLedger(client, lock, identity, writeEveryMs, signal);
    else await delay(2 ** 31 - 1, undefined, { signal }).catch(() => {});
    journal.write({ type: 'ended', lock, identity, at: monotonicMs() });
  };
  const stand = async (lock: string): Promise<void> => {
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
  const informing = listing && inform(new HttpClient(informed, name), listing, journal, stop.signal);
  await Promise.all(
    locks.map(async (lock) => {
      while (!stop.signal.aborted) await stand(lock);
    }),
  );
  await informing;
  await informed.close();
  await electing.close();
  await working.close();
}

await main(JSON.parse(process.env.CANDIDATE_SETTINGS ?? '') as CandidateSettings);
