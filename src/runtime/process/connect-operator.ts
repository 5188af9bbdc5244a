import { hostname } from 'node:os';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { Applier } from '../apply/index.ts';
import { HttpClient } from '../client/http-client.ts';
import { type Client, type Connection, connect } from '../client/index.ts';
import { Transport } from '../client/transport.ts';
import type { LeaderElector } from '../leader-election/index.ts';
import { Manager, type Readiness } from '../manager/index.ts';
import { EventRecorder, type Logger, Metrics } from '../observability/index.ts';
import { Candidate, type LeaderElectionOptions } from './candidate.ts';

/** What {@link connectOperator} puts an operator together from. */
export interface ConnectOptions {
  /**
   * The field manager of its writes: under this name the API server keeps which fields are the operator's. A DNS
   * subdomain.
   */
  readonly name: string;
  /** Where `KUBECONFIG`, `HOME` and a pod's service account are looked for: `process.env`. */
  readonly environment: NodeJS.ProcessEnv;
  readonly log: Logger;
  /** The kubeconfig to use. Default: as {@link connect} finds one. */
  readonly kubeconfigPath?: string | undefined;
  /** The way to the API server, where it is known: a test's, or one made by hand. Default: as {@link connect} finds it. */
  readonly connection?: Connection;
  /** How it names itself in the API server's log: `greeter/1.2.3`. Default: its name. */
  readonly userAgent?: string;
  /** How its Events name it, a qualified name: `example.com/greeter`. Default: its name. */
  readonly eventSource?: string;
  /** Which of several processes it is, in its Events. Default: the host's name, which is the pod's. */
  readonly instance?: string;
  /** As in `ManagerOptions`. */
  readonly drainTimeoutMs?: number;
  /** As in `ManagerOptions`. Default 120,000. */
  readonly cacheSyncTimeoutMs?: number;
  /** Of several processes only the one that leads works. Default: this process works, whatever others do. */
  readonly leaderElection?: LeaderElectionOptions | undefined;
}

/** An operator's parts, put together and connected, but not running. */
export interface Operator {
  readonly connection: Connection;
  /** With leader election each of its requests passes the elector's fence, reads too. Informers list and watch without one. */
  readonly client: Client;
  readonly metrics: Metrics;
  readonly events: EventRecorder;
  /** Its `fence` is a gate for other ways to the outside that only a leader may take. Undefined without leader election. */
  readonly elector: LeaderElector | undefined;
  /** Under the field manager of the client. */
  readonly applier: Applier;
  /** Add the controllers here. */
  readonly manager: Manager;
  /** For a readiness probe: the manager's, or a standby's, which is ready when it knows of a leader. */
  readiness(): Readiness;
  /**
   * Runs the manager until the signal is aborted, waits up to two seconds for the last Events, and closes the
   * connections. With leader election it contends first, and at last releases the Lease, after the last Event. An operator
   * runs once.
   *
   * @throws whatever `Manager.run` throws; LeadershipLostError as soon as the Lease is lost: reconciles may still be under
   *   way then, but no request of theirs begins any more, and the process should end.
   */
  run(signal: AbortSignal): Promise<void>;
}

/** Events are a courtesy: the process does not outstay its grace period for one. */
const eventFlushTimeoutMs = 2000;

/**
 * Puts together what an operator is made of: connection, transport, client, metrics of its own and of Node, recorder of
 * Events, applier, manager. All of them can be made by hand as well, where one has to be another.
 *
 * No request is sent yet: that the API server answers is not known before the manager runs, and waits until it does.
 *
 * @throws ConnectionError when there is no way to an API server; RangeError for a name that is no DNS subdomain, and for
 *   a Lease's timings that don't fit together.
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
  const { name, environment, log, kubeconfigPath, leaderElection, userAgent = name } = options;
  const { drainTimeoutMs, cacheSyncTimeoutMs } = options;
  const connection = options.connection ?? (await connect({ environment, kubeconfigPath }));
  const metrics = new Metrics(new Registry());
  collectDefaultMetrics({ register: metrics.registry });
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
  const gate = candidate?.elector.fence;
  const client = new HttpClient(transport, name, { gate });
  // Informers only read, and those of a warm standby must.
  const reader = new HttpClient(transport, name);
  const controller = options.eventSource ?? name;
  const events = new EventRecorder({ client, controller, instance: options.instance ?? hostname(), log, gate });
  const manager = new Manager({
    client,
    reader,
    log,
    metrics,
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
