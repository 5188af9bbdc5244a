import type { Operator } from '@echoperator/runtime';
import { type WebhooksOptions, webhooks } from '@echoperator/runtime/admission';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import type { RunningService } from '@echoperator/runtime/process';
import { type ConnectOptions, connectOperator } from '@echoperator/runtime/process';
import { eventually } from '../../../testkit/eventually.ts';
import { RecordingLog } from '../../../testkit/recording-log.ts';
import type { TestCluster } from '../../../testkit/test-cluster.ts';

/** An operator without controllers that serves webhooks. */
export interface RunningWebhooks {
  readonly operator: Operator;
  readonly service: RunningService;
  readonly log: RecordingLog;
  /** Repeated calls are harmless. */
  readonly stop: () => Promise<void>;
}

/**
 * Serves webhooks on loopback. They are ready, but the API server may not call them yet.
 *
 * @param cleanUp gets what stops them, also if they do not become ready.
 * @param leaderElection default: none, the operator leads.
 */
export async function runWebhooks(
  cluster: TestCluster,
  options: WebhooksOptions,
  cleanUp: (() => Promise<unknown>)[],
  leaderElection?: ConnectOptions['leaderElection'],
): Promise<RunningWebhooks> {
  const log = new RecordingLog();
  const connection = await kubeconfigConnection(cluster.kubeconfig);
  const operator = await connectOperator({ name: options.name, log, connection, leaderElection });
  const service = await webhooks({
    ...options,
    host: '127.0.0.1',
    additionalNames: ['127.0.0.1'],
    stopDelayMs: 0,
  }).start(operator, { log, environment: {} });
  const stopping = new AbortController();
  const running = operator.run(stopping.signal);
  let stopped: Promise<void> | undefined;
  const stop = () => {
    stopping.abort();
    stopped ??= Promise.all([running, service.stop()]).then(() => {});
    return stopped;
  };
  cleanUp.push(stop);
  await eventually('the webhooks are ready', async () => service.waitingFor() === undefined);
  return { operator, service, log, stop };
}
