import { isConflict } from '../client/api-error.ts';
import { createClient } from '../client/create-client.ts';
import { podNamespace } from '../client/in-cluster.ts';
import type { Operator } from '../process/connect-operator.ts';
import type { OperatorService, RunningService } from '../process/operator-service.ts';
import type { Logger } from '../shared/logger.ts';
import { pause } from '../shared/pause.ts';
import type { CaBundleTarget } from './ca-bundle-target.ts';
import { certificateReader } from './certificate-reader.ts';
import { CertificateRotation, type CertificateTimes } from './certificate-rotation.ts';
import { canonicalName } from './pki.ts';
import { followCertificate } from './serving-certificate.ts';
import { type WebhookHandler, WebhookServer, type WebhookServerLimits } from './webhook-server.ts';
import {
  bundleManagerOf,
  defaultWebhookPort,
  secretNameOf,
  serviceNameOf,
  type WebhookSettings,
} from './webhook-settings.ts';
import { loadX509Issuer } from './x509-issuer.ts';

/** Options of the webhooks of an operator. */
export interface WebhookServiceOptions extends WebhookSettings, WebhookServerLimits {
  /** The operator's namespace. Default: that of the pod; outside a cluster `default`. */
  readonly namespace?: string;
  /** The address to listen on. Default: all. */
  readonly host?: string;
  /**
   * Names or addresses under which API servers call the webhooks, in addition to those of the Service. Default: none.
   */
  readonly additionalNames?: readonly string[];
  readonly certificates?: CertificateTimes & {
    /**
     * Somebody else, such as cert-manager, provides the Secret: with `tls.crt`, `tls.key`, and the authorities to trust
     * in `ca.crt`. The operator only reads it. Default false: the leader creates and renews the certificates.
     */
    readonly isProvided?: boolean;
    /**
     * Whether the leader writes the authorities into the `caBundle` of the configurations. Set it to false if another
     * tool does, such as the CA injector of cert-manager. Default true.
     */
    readonly writesBundles?: boolean;
  };
}

/**
 * Creates the service of an operator's webhooks: every replica serves them, and the leader takes care of the
 * certificates.
 *
 * @param handlers by path.
 * @param targets the objects whose `caBundle` API servers need to call the handlers.
 */
export const createWebhookService = (
  options: WebhookServiceOptions,
  handlers: ReadonlyMap<string, WebhookHandler>,
  targets: readonly CaBundleTarget[],
): OperatorService => ({
  start: (operator, { log, environment }) => start(operator, { ...options, handlers, targets, log, environment }),
});

interface StartOptions extends WebhookServiceOptions {
  readonly handlers: ReadonlyMap<string, WebhookHandler>;
  readonly targets: readonly CaBundleTarget[];
  readonly log: Logger;
  readonly environment: NodeJS.ProcessEnv;
}

async function start(operator: Operator, options: StartOptions): Promise<RunningService> {
  const {
    handlers,
    targets,
    environment,
    port = defaultWebhookPort,
    certificates = {},
    additionalNames = [],
  } = options;
  const { isProvided = false, writesBundles = true, ...times } = certificates;
  const log = options.log.child({ service: 'webhooks' });
  const namespace = options.namespace ?? (await podNamespace(environment)) ?? 'default';
  const secret = { namespace, name: secretNameOf(options) };
  const fieldManager = bundleManagerOf(options);
  // Every replica loads it, so that a missing package is found at the first start and not at the first renewal.
  const issuer = isProvided ? undefined : await loadX509Issuer();
  const service = `${serviceNameOf(options)}.${namespace}.svc`;
  const rotationOptions = {
    secret,
    targets: writesBundles ? targets : [],
    names: [service, ...additionalNames].map(canonicalName),
    fieldManager,
    reader: certificateReader,
    issuer,
    times,
    log,
  };
  const rotation = new CertificateRotation(operator.client, rotationOptions);
  if (writesBundles || issuer !== undefined) operator.manager.task((signal) => rotation.run(signal));
  const server = await WebhookServer.start({ ...options, handlers, port, log });
  // A client of its own: it reads while this process does not lead, and until the server has stopped.
  const client = createClient(operator.connection, { fieldManager });
  const stopped = new AbortController();
  const { propagationMs = 30_000 } = times;
  const following = followCertificate(
    { client, secret, reader: certificateReader, server, propagationMs, log },
    stopped.signal,
  );
  const creating =
    issuer === undefined
      ? undefined
      : createMissingCertificate(new CertificateRotation(client, rotationOptions), server, log, stopped.signal);
  log.info({ port: server.port }, 'webhooks are served');
  return {
    waitingFor: () => server.problem,
    stop: async () => {
      await server.stop();
      stopped.abort();
      await Promise.all([following, creating]);
      await client.close();
      log.info({}, 'webhooks have stopped');
    },
  };
}

/** How long a replica without a certificate waits for the leader, and pauses between two passes. */
const missingCertificateMs = 5000;

/**
 * Creates the certificate if the leader does not, until the signal aborts. The leader may be a replica of a release
 * without webhooks: it stays until this replica is ready, which needs a certificate. Each write carries the version
 * that it is computed from, so a leader that does the same is no danger.
 */
async function createMissingCertificate(
  rotation: CertificateRotation,
  server: WebhookServer,
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  await pause(missingCertificateMs, signal);
  while (!signal.aborted) {
    let waitMs = missingCertificateMs;
    try {
      if (!server.hasCertificate) waitMs = Math.min(await rotation.reconcile(signal), missingCertificateMs);
    } catch (error) {
      if (!signal.aborted && !isConflict(error))
        log.warn({ err: error }, 'this replica could not create a certificate');
    }
    await pause(waitMs, signal);
  }
}
