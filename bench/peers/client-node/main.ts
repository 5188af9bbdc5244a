/**
 * The client-node peer of the benchmark. For each Echo it writes one Job, one status and one Event, with the informer
 * and the typed API of @kubernetes/client-node.
 *
 * Environment: NUM_WORKERS (concurrent reconciles, default 4), ECHO_IMAGE, KUBECONFIG. With LEADER_ELECTION_ID the peer
 * takes and renews the Lease of that name in LEADER_ELECTION_NAMESPACE, like the other operators. It is never a
 * standby.
 */
import { hostname } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import {
  ApiException,
  BatchV1Api,
  CoordinationV1Api,
  CustomObjectsApi,
  EventsV1Api,
  type Informer,
  KubeConfig,
  type KubernetesListObject,
  type KubernetesObject,
  makeInformer,
  PatchStrategy,
  setHeaderOptions,
  type V1Job,
  V1MicroTime,
} from '@kubernetes/client-node';
import { pino } from 'pino';
import { type Echo, type EchoStatus, echoApiVersion, echos, jobFor } from './echo.ts';
import { Queue } from './queue.ts';

const workers = Number(process.env.NUM_WORKERS ?? 4);
const image = process.env.ECHO_IMAGE ?? 'busybox:1.36';
const log = pino({ level: 'info' });

const config = new KubeConfig();
config.loadFromDefault();
const batch = config.makeApiClient(BatchV1Api);
const events = config.makeApiClient(EventsV1Api);
const custom = config.makeApiClient(CustomObjectsApi);

const queue = new Queue();
const echoInformer = makeInformer<Echo>(
  config,
  `/apis/${echoApiVersion}/${echos.plural}`,
  async () =>
    (await custom.listCustomObjectForAllNamespaces({
      ...echos,
      resourcePlural: echos.plural,
    })) as KubernetesListObject<Echo>,
);
const jobInformer = makeInformer<V1Job>(config, '/apis/batch/v1/jobs', () => batch.listJobForAllNamespaces());

const keyOf = (object: KubernetesObject): string => `${object.metadata?.namespace}/${object.metadata?.name}`;

async function reconcile(key: string): Promise<void> {
  const [namespace = '', name = ''] = key.split('/');
  const echo = echoInformer.get(name, namespace);
  if (echo === undefined || echo.metadata.deletionTimestamp !== undefined) return;
  const job =
    jobInformer.get(name, namespace) ??
    (await batch.createNamespacedJob({ namespace, body: jobFor(echo, image) }).catch((error: unknown) => {
      // The Job exists, and the informer has not observed it yet.
      if (error instanceof ApiException && error.code === 409) return undefined;
      throw error;
    }));
  if (job !== undefined) await report(echo, namespace, name, job);
}

/** Writes the status and an Event if the status differs. */
async function report(echo: Echo, namespace: string, name: string, job: V1Job): Promise<void> {
  const { phase, ready, reason, message } = stateOf(job);
  const { generation: observedGeneration = 0, resourceVersion = '', uid = '' } = echo.metadata;
  const before = echo.status?.conditions?.find(({ type }) => type === 'Ready');
  const status: EchoStatus = {
    phase,
    jobName: job.metadata?.name ?? '',
    observedGeneration,
    conditions: [
      {
        type: 'Ready',
        status: ready,
        reason,
        message,
        observedGeneration,
        lastTransitionTime:
          before?.status === ready ? before.lastTransitionTime : new Date().toISOString().replace(/\.\d+/, ''),
      },
    ],
  };
  if (isDeepStrictEqual(status, echo.status)) return;
  await custom.patchNamespacedCustomObjectStatus(
    { ...echos, namespace, name, body: { metadata: { resourceVersion }, status } },
    setHeaderOptions('Content-Type', PatchStrategy.MergePatch),
  );
  log.info({ echo: name, namespace, reason }, message);
  const now = new V1MicroTime();
  await events.createNamespacedEvent({
    namespace,
    body: {
      metadata: { name: `${name}.${process.hrtime.bigint().toString(16)}`, namespace },
      eventTime: now,
      type: 'Normal',
      reason,
      action: 'Reconcile',
      note: message,
      reportingController: 'mmontes.io/client-node-peer',
      reportingInstance: hostname(),
      regarding: { apiVersion: echoApiVersion, kind: 'Echo', namespace, name, uid, resourceVersion },
    },
  });
}

function stateOf(job: V1Job): { phase: string; ready: 'True' | 'False'; reason: string; message: string } {
  const name = job.metadata?.name ?? '';
  const has = (type: string): boolean =>
    job.status?.conditions?.some((condition) => condition.type === type && condition.status === 'True') ?? false;
  if (has('Complete')) {
    return { phase: 'Succeeded', ready: 'True', reason: 'Printed', message: `Job ${name} has printed the message` };
  }
  if (has('Failed')) {
    return { phase: 'Failed', ready: 'False', reason: 'JobFailed', message: `Job ${name} has failed` };
  }
  const phase = (job.status?.active ?? 0) > 0 ? 'Running' : 'Pending';
  return { phase, ready: 'False', reason: 'Printing', message: `Job ${name} prints the message` };
}

/** The handlers receive the object that the informer's cache holds, so this frees the memory of the cached object. */
function dropManagedFields(object: KubernetesObject): void {
  delete object.metadata?.managedFields;
}

function enqueueOwner(job: V1Job): void {
  const owner = job.metadata?.ownerReferences?.find(({ controller }) => controller);
  if (owner?.kind === 'Echo') queue.add(`${job.metadata?.namespace}/${owner.name}`);
}

/** The informer stops at an error. Its documentation says that the caller must start it again. */
function startAgainAfterError<T extends KubernetesObject>(informer: Informer<T>): void {
  informer.on('error', (error: unknown) => {
    log.warn({ err: error }, 'informer stopped: starting it again in a second');
    setTimeout(() => void informer.start(), 1000);
  });
}

const generations = new Map<string, number | undefined>();
for (const verb of ['add', 'update'] as const) {
  echoInformer.on(verb, (echo) => {
    dropManagedFields(echo);
    const { uid = '', generation } = echo.metadata;
    // A status write does not change the generation, so it needs no reconcile.
    if (generations.get(uid) === generation) return;
    generations.set(uid, generation);
    queue.add(keyOf(echo));
  });
}
echoInformer.on('delete', ({ metadata }) => void generations.delete(metadata.uid ?? ''));
// An added Job is our own creation, which needs no reconcile.
jobInformer.on('add', dropManagedFields);
jobInformer.on('update', (job) => {
  dropManagedFields(job);
  enqueueOwner(job);
});
jobInformer.on('delete', enqueueOwner);
startAgainAfterError(echoInformer);
startAgainAfterError(jobInformer);

const { LEADER_ELECTION_ID: lease, LEADER_ELECTION_NAMESPACE: leaseNamespace = '' } = process.env;
if (lease !== undefined) {
  const leases = config.makeApiClient(CoordinationV1Api);
  const spec = () => ({ holderIdentity: hostname(), leaseDurationSeconds: 15, renewTime: new V1MicroTime() });
  const renew = () =>
    leases.patchNamespacedLease(
      {
        name: lease,
        namespace: leaseNamespace,
        body: { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: lease }, spec: spec() },
        fieldManager: 'client-node-peer',
        force: true,
      },
      setHeaderOptions('Content-Type', PatchStrategy.ServerSideApply),
    );
  await renew();
  setInterval(() => renew().catch((error: unknown) => log.warn({ err: error }, 'the Lease is not renewed')), 2000);
}

await Promise.all([echoInformer.start(), jobInformer.start()]);
log.info('caches have synced');
// Frees the garbage of the initial lists, as our operator does.
setTimeout(() => globalThis.gc?.(), 1000);
for (let worker = 0; worker < workers; worker++) {
  void queue.work(reconcile, (key, error) => log.warn({ err: error, key }, 'reconcile failed'));
}
