import { hostname } from 'node:os';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { Applier } from '../apply/applier.ts';
import type { Client } from '../client/client.ts';
import { connect } from '../client/connect.ts';
import type { Connection } from '../client/connection.ts';
import { HttpClient } from '../client/http-client.ts';
import type { ContextChoice } from '../client/kubeconfig.ts';
import { Transport } from '../client/transport.ts';
import type { LeaderElector } from '../leader-election/leader-elector.ts';
import { Manager, type Readiness } from '../manager/manager.ts';
import { EventRecorder } from '../observability/event-recorder.ts';
import { Metrics } from '../observability/metrics.ts';
import type { OperatorObserver } from '../observer/operator-observer.ts';
import type { Logger } from '../shared/logger.ts';
import { Candidate, type LeaderElectionOptions, type Leadership } from './candidate.ts';

/** Options of {@link connectOperator}. */
export interface ConnectOptions extends ContextChoice {
  /** The operator's field manager, under which the API server tracks the fields that it sets. A DNS subdomain. */
  readonly name: string;
  /** The source of `KUBECONFIG`, `HOME` and the variables of a pod: `process.env`. Required without `connection`. */
  readonly environment?: NodeJS.ProcessEnv;
  readonly log: Logger;
  /** The path of a kubeconfig. Default: {@link connect} finds one. */
  readonly kubeconfigPath?: string | undefined;
  /** A connection to use, for example in a test. Default: {@link connect} creates one. */
  readonly connection?: Connection;
  /** The user agent of the requests: `greeter/1.2.3`. Default: the name. */
  readonly userAgent?: string;
  /** The `reportingController` of Events, a qualified name: `example.com/greeter`. Default: the name. */
  readonly reportingController?: string;
  /** The `reportingInstance` of Events. Default: the host name, which in a pod is the pod's name. */
  readonly instance?: string;
  /** See `ManagerOptions`. */
  readonly drainTimeoutMs?: number;
  /** See `ManagerOptions`. Default 120,000. */
  readonly cacheSyncTimeoutMs?: number;
  /** Observes every reconcile, for example a {@link FlightRecorder}. Default: none. */
  readonly observer?: OperatorObserver | undefined;
  /** Elects one of several processes to work. Default: no leader election, this process always works. */
  readonly leaderElection?: LeaderElectionOptions | undefined;
}

/** The parts of an operator, connected but not running. */
export interface Operator {
  readonly connection: Connection;
  /**
   * For set-up, and for tasks other than reconciles. A reconciler must use the client of its context, because the
   * caches show that client's writes. After a write with this client the next reconcile may read a cache that lacks the
   * write. With leader election, each request, including reads, must pass the elector's fence. Informers use another
   * client.
   */
  readonly client: Client;
  readonly metrics: Metrics;
  readonly events: EventRecorder;
  /**
   * Use its `fence` as a gate for other outgoing calls that only a leader may make. Undefined without leader election.
   */
  readonly elector: LeaderElector | undefined;
  /** Uses the client's field manager. */
  readonly applier: Applier;
  /** Add the controllers here. */
  readonly manager: Manager;
  /** The last observed leader. Undefined without leader election, and until a leader is observed. */
  leadership(): Leadership | undefined;
  /**
   * For a readiness probe. A leader is ready while its caches are; see `ManagerOptions.cacheSyncTimeoutMs`. A standby
   * is ready if it has observed a renewal of the Lease, or a new holder, during the last two lease durations. The
   * caches of a warm standby must be ready too.
   */
  readiness(): Readiness;
  /**
   * Runs the manager until the signal aborts, waits up to two seconds for the last Events, and closes the connections.
   * With leader election, it first contends for the Lease, and releases the Lease after the last Event. Call it only
   * once.
   *
   * @throws the errors of `Manager.run`; LeadershipLostError as soon as the Lease is lost; ScopeTakenError if another
   *   operator works in its scope. Reconciles may then still run, but none of their requests is sent, and the process
   *   should exit.
   */
  run(signal: AbortSignal): Promise<void>;
}

/** Short, because Events must not delay the end of the process beyond its grace period. */
const eventFlushTimeoutMs = 2000;

/**
 * Creates and connects the parts of an operator: connection, transport, client, metrics (with those of Node), event
 * recorder, applier and manager.
 *
 * Sends no request. The API server may be unavailable: the running manager waits for it.
 *
 * @throws ConnectionError if no API server is configured; TypeError without `connection` and `environment`; RangeError
 *   for a name that is not a DNS subdomain, and for inconsistent timings of the Lease.
 *
 * @example
 * const operator = await connectOperator({ name: 'greeter', environment: process.env, log: pino() });
 * operator.manager.controller(Greeting, { reconcile });
 * await operator.run(signal);
 *
 * @example
 * const leaderElection = { lease: { namespace: 'greeter', name: 'greeter' } };
 * const operator = await connectOperator({ name: 'greeter', environment: process.env, log: pino(), leaderElection });
 */
export async function connectOperator(options: ConnectOptions): Promise<Operator> {
  const metrics = new Metrics(new Registry());
  collectDefaultMetrics({ register: metrics.registry });
  return connectOperatorWith(metrics, options);
}

/**
 * Like {@link connectOperator}, but with the caller's metrics. The metrics of the process can never be released, so
 * many operators in one process must not create them.
 */
export async function connectOperatorWith(metrics: Metrics, options: ConnectOptions): Promise<Operator> {
  const { name, environment, log, kubeconfigPath, leaderElection, userAgent = name } = options;
  const { drainTimeoutMs, cacheSyncTimeoutMs, context, loopbackOnly } = options;
  const connection =
    options.connection ??
    (await connect({ environment: required(environment), kubeconfigPath, context, loopbackOnly }));
  const observe = metrics.requests(connection.server.host);
  const transport = new Transport(connection, { userAgent, observe });
  const candidate =
    leaderElection &&
    new Candidate(leaderElection, {
      connection,
      name,
      userAgent,
      observe,
      observer: metrics.leader(leaderElection.lease.name),
      log,
    });
  if (candidate !== undefined && leaderElection !== undefined) {
    metrics.leaseTransitions(leaderElection.lease.name, () => candidate.elector.leaseTransitions);
  }
  const gate = candidate?.elector.fence;
  const client = new HttpClient(transport, name, { gate });
  // The reader has no gate, because the informers of a warm standby must list and watch too.
  const reader = new HttpClient(transport, name);
  const controller = options.reportingController ?? name;
  const events = new EventRecorder({ client, controller, instance: options.instance ?? hostname(), log, gate });
  const manager = new Manager({
    client,
    reader,
    log,
    metrics,
    observer: options.observer,
    ...(drainTimeoutMs !== undefined && { drainTimeoutMs }),
    ...(cacheSyncTimeoutMs !== undefined && { cacheSyncTimeoutMs }),
  });
  const finish = () => events.flush(eventFlushTimeoutMs);
  return {
    connection,
    client,
    metrics,
    events,
    elector: candidate?.elector,
    applier: new Applier({ fieldManager: name }),
    manager,
    leadership: () => candidate?.leadership,
    readiness: () => candidate?.readiness({ manager }) ?? manager.readiness(),
    run: async (signal) => {
      try {
        if (candidate !== undefined) return await candidate.run(signal, { manager, finish });
        await manager.run(signal);
        await finish();
      } finally {
        await transport.close();
      }
    },
  };
}

function required(environment: NodeJS.ProcessEnv | undefined): NodeJS.ProcessEnv {
  if (environment !== undefined) return environment;
  throw new TypeError('connectOperator needs a connection or an environment: pass `environment: process.env`');
}
