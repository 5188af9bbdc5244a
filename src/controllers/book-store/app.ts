import { BookStore } from '../../api/index.ts';
import { isRefusal } from '../../runtime/client/index.ts';
import {
  type Applier,
  builtInKind,
  type Client,
  controllerReference,
  deleteIfPresent,
  isControlledBy,
  keyOf,
  type Manifest,
  type ReadonlyStore,
} from '../../runtime/index.ts';
import { Deployment, type Pod, Service } from '../../runtime/kinds/index.ts';
import { beingDeleted } from '../name-taken.ts';
import type { PodDefaults } from '../pod-defaults.ts';
import { problemAmong } from '../pods.ts';
import {
  appServiceKey,
  deploymentKey,
  objectLabels,
  podSpecOf,
  readyWhenListening,
  type Settings,
  selectorLabels,
} from './desired.ts';
import { type AppResult, nameTakenOutcome, type PartOutcome, refused, rolloutOf } from './status.ts';

/** Options of {@link reconcileApp}. */
export interface AppOptions {
  readonly deployments: ReadonlyStore<Deployment>;
  readonly services: ReadonlyStore<Service>;
  readonly appPods: (bookStore: BookStore) => Iterable<Pod>;
  readonly podDefaults: PodDefaults;
  readonly applier: Applier;
  readonly client: Client;
}

/**
 * Applies the Deployment and the Service of the app. When the app is ready, deletes the Service of an earlier name.
 *
 * @param foreignDatabase why the database's Service does not belong to this BookStore. The app would connect to another
 *   database, so nothing of it is changed. Undefined if the Service belongs to this BookStore.
 * @throws any error of the client, except a refusal, which the result contains.
 */
export async function reconcileApp(
  bookStore: BookStore,
  settings: Settings,
  foreignDatabase: PartOutcome | undefined,
  options: AppOptions,
): Promise<AppResult> {
  const present = ownDeployment(bookStore, options);
  if (foreignDatabase !== undefined) {
    const { serviceName } = settings.database;
    const message = `the app is not changed while Service ${serviceName}, to which it connects, does not belong to this BookStore`;
    return { app: { reason: foreignDatabase.reason, message }, deployment: present };
  }
  try {
    return await applyApp(bookStore, settings, present, options);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return { app: refused(error), deployment: present, error };
  }
}

function ownDeployment(bookStore: BookStore, { deployments }: AppOptions): Deployment | undefined {
  const present = deployments.get(deploymentKey(bookStore));
  return present !== undefined && isControlledBy(present, bookStore) ? present : undefined;
}

async function applyApp(
  bookStore: BookStore,
  settings: Settings,
  present: Deployment | undefined,
  { applier, deployments, services, appPods, podDefaults, client }: AppOptions,
): Promise<AppResult> {
  if (settings.app.replicas === undefined && present !== undefined) await releaseReplicas(present, client);
  const manifest = deploymentOf(bookStore, settings, podDefaults);
  const applied = await applier.apply(Deployment, manifest, { client, store: deployments });
  const service = await applier.apply(Service, appServiceOf(bookStore, settings), { client, store: services });
  if (applied.type === 'nameTaken') {
    return { app: nameTakenOutcome(bookStore, Deployment, applied.holder, 'delete one of the two') };
  }
  const deployment = applied.object;
  if (service.type === 'nameTaken') {
    const advice = 'set another bookApp.serviceName';
    return { app: nameTakenOutcome(bookStore, Service, service.holder, advice), deployment };
  }
  if (service.type === 'terminating') return { app: beingDeleted(Service, service.object), deployment };
  if (applied.type === 'terminating') return { app: beingDeleted(Deployment, deployment), deployment };
  const app = appOutcome(deployment, appPods(bookStore));
  if (app.reason === 'AppServing') {
    for (const old of earlierServices(services, bookStore, settings)) {
      // If somebody has removed the owner reference to keep the Service, this is a Conflict, and the retry leaves it alone.
      const { uid, resourceVersion } = old.metadata;
      await deleteIfPresent(client, Service, keyOf(old), { uid, resourceVersion });
    }
  }
  return { app, deployment };
}

function appOutcome(deployment: Deployment, pods: Iterable<Pod>): PartOutcome {
  const { desired, ready, updated, isComplete } = rolloutOf(deployment);
  if (isComplete) return { reason: 'AppServing', message: `${ready} of ${desired} pods of the app are ready` };
  const detail = problemAmong(pods) ?? replicaFailure(deployment) ?? `${updated} are of the current template`;
  return { reason: 'AppUpdating', message: `${ready} of ${desired} pods of the app are ready: ${detail}` };
}

/** Why the API server refuses the app's pods, for example a quota or a policy. No pod exists that could show it. */
const replicaFailure = ({ status }: Deployment): string | undefined =>
  status?.conditions?.find(({ type, status: is }) => type === 'ReplicaFailure' && is === 'True')?.message;

/** The Services that a BookStore owns but whose names its spec no longer has. */
export const earlierServices = (
  services: Pick<ReadonlyStore<Service>, 'byOwner'>,
  bookStore: BookStore,
  { app, database }: Settings,
): readonly Service[] =>
  [...services.byOwner(bookStore.metadata.uid)].filter(
    (service) =>
      isControlledBy(service, bookStore) &&
      service.metadata.deletionTimestamp === undefined &&
      service.metadata.name !== app.serviceName &&
      service.metadata.name !== database.serviceName,
  );

/** The annotation of a Deployment whose replicas the BookStore sets. It shows when the BookStore stops setting them. */
const replicasAnnotation = 'blog.velotio.com/replicas';

/** The field manager that keeps replicas after the BookStore stops setting them, until an autoscaler sets them. */
const replicasManager = 'echoperator-replicas';

/** Deployment, typed as its replicas only: the apply that takes them over sends no other field. */
const DeploymentReplicas = builtInKind<{ spec: { replicas: number } }>({
  group: 'apps',
  version: 'v1',
  kind: 'Deployment',
  plural: 'deployments',
});

/**
 * Keeps the current number of replicas when the BookStore stops setting it, so that an autoscaler continues from there. An apply
 * without replicas would reset them to 1, so another field manager takes over the field first.
 */
async function releaseReplicas(deployment: Deployment, client: Client): Promise<void> {
  const { name, namespace = '', uid, resourceVersion, deletionTimestamp, annotations } = deployment.metadata;
  if (annotations?.[replicasAnnotation] === undefined || deletionTimestamp !== undefined) return;
  const manifest = { metadata: { name, namespace }, spec: { replicas: rolloutOf(deployment).desired } };
  await client.apply(DeploymentReplicas, manifest, {
    fieldManager: replicasManager,
    force: true,
    uid,
    resourceVersion,
  });
}

/** The Deployment that runs the app. */
export function deploymentOf(bookStore: BookStore, { app }: Settings, podDefaults: PodDefaults): Manifest<Deployment> {
  const { replicas, targetPort } = app;
  return {
    metadata: {
      ...deploymentKey(bookStore),
      labels: objectLabels(bookStore, 'app'),
      ...(replicas !== undefined && { annotations: { [replicasAnnotation]: String(replicas) } }),
      ownerReferences: [controllerReference(BookStore, bookStore)],
    },
    spec: {
      ...(replicas !== undefined && { replicas }),
      selector: { matchLabels: selectorLabels(bookStore, 'app') },
      template: {
        metadata: { labels: objectLabels(bookStore, 'app') },
        spec: podSpecOf(app, podDefaults, {
          name: 'app',
          ports: [{ name: 'http', containerPort: targetPort }],
          readinessProbe: readyWhenListening(targetPort),
        }),
      },
    },
  };
}

/** The Service of the app. */
export function appServiceOf(bookStore: BookStore, { app }: Settings): Manifest<Service> {
  const { port, targetPort, serviceType } = app;
  return {
    metadata: {
      ...appServiceKey(bookStore),
      labels: objectLabels(bookStore, 'app'),
      ownerReferences: [controllerReference(BookStore, bookStore)],
    },
    spec: {
      type: serviceType,
      selector: selectorLabels(bookStore, 'app'),
      ports: [{ name: 'http', protocol: 'TCP', port, targetPort }],
    },
  };
}
