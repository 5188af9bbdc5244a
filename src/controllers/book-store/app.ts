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
import { Deployment, type Pod, Service } from '../built-in-kinds.ts';
import { problemAmong } from '../pods.ts';
import {
  appServiceKey,
  deploymentKey,
  objectLabels,
  readyWhenListening,
  type Settings,
  selectorLabels,
} from './desired.ts';
import { type AppResult, nameTaken, type PartFinding, refused, replacing, rolloutOf } from './status.ts';

/** What the reconcile of the app reads and writes. */
export interface AppOptions {
  readonly deployments: ReadonlyStore<Deployment>;
  readonly services: ReadonlyStore<Service>;
  readonly appPods: (bookStore: BookStore) => Iterable<Pod>;
  readonly applier: Applier;
  readonly client: Client;
}

/**
 * Applies the app's Deployment and Service, and deletes the Service of an earlier name once the app serves.
 *
 * @param foreignDatabase why the database that the app would dial is somebody else's, if it is: then the app is not touched.
 * @throws whatever the client throws, except a refusal, which the result holds.
 */
export async function reconcileApp(
  bookStore: BookStore,
  settings: Settings,
  foreignDatabase: PartFinding | undefined,
  options: AppOptions,
): Promise<AppResult> {
  const present = ownDeployment(bookStore, options);
  if (foreignDatabase !== undefined) {
    const { serviceName } = settings.database;
    const message = `the app is not touched while Service ${serviceName} leads to a database that is not this BookStore's`;
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
  { applier, deployments, services, appPods, client }: AppOptions,
): Promise<AppResult> {
  if (settings.app.replicas === undefined && present !== undefined) await giveUpReplicas(present, client);
  const applied = await applier.apply(Deployment, deploymentOf(bookStore, settings), { client, store: deployments });
  const service = await applier.apply(Service, appServiceOf(bookStore, settings), { client, store: services });
  if (applied.type === 'nameTaken') {
    return { app: nameTaken(bookStore, Deployment, applied.holder, 'delete one of the two') };
  }
  const deployment = applied.object;
  if (service.type === 'nameTaken') {
    const advice = 'set another bookApp.serviceName';
    return { app: nameTaken(bookStore, Service, service.holder, advice), deployment };
  }
  if (service.type === 'terminating') return { app: replacing(Service, service.object), deployment };
  if (applied.type === 'terminating') return { app: replacing(Deployment, deployment), deployment };
  const app = appFinding(deployment, appPods(bookStore));
  if (app.reason === 'AppServing') {
    for (const old of earlierServices(services, bookStore, settings)) {
      // Somebody may have taken the owner off to keep the Service: then this is a Conflict, and the retry sees it.
      const { uid, resourceVersion } = old.metadata;
      await deleteIfPresent(client, Service, keyOf(old), { uid, resourceVersion });
    }
  }
  return { app, deployment };
}

function appFinding(deployment: Deployment, pods: Iterable<Pod>): PartFinding {
  const { desired, ready, updated, isComplete } = rolloutOf(deployment);
  if (isComplete) return { reason: 'AppServing', message: `${ready} of ${desired} pods of the app are ready` };
  const detail = problemAmong(pods) ?? replicaFailure(deployment) ?? `${updated} are of the present template`;
  return { reason: 'AppUpdating', message: `${ready} of ${desired} pods of the app are ready: ${detail}` };
}

/** Why the API server refuses the pods: a quota, a policy. A pod that does not exist has no problem of its own. */
const replicaFailure = ({ status }: Deployment): string | undefined =>
  status?.conditions?.find(({ type, status: is }) => type === 'ReplicaFailure' && is === 'True')?.message;

/** The Services that a BookStore owns under names that it no longer asks for. */
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

/** On the Deployment while the BookStore sets its replicas, so that it can be seen when it no longer does. */
const replicasAnnotation = 'blog.velotio.com/replicas';

/** The field manager of replicas that the BookStore no longer sets and nobody else does. */
const replicasManager = 'echoperator-replicas';

/** A Deployment as far as its replicas go. */
const DeploymentReplicas = builtInKind<{ spec: { replicas: number } }>({
  group: 'apps',
  version: 'v1',
  kind: 'Deployment',
  plural: 'deployments',
});

/**
 * Keeps the number of replicas when the BookStore no longer sets it, for an autoscaler to go on from. An apply without
 * replicas would unset them, which means 1, so another field manager becomes an owner of the field first.
 */
async function giveUpReplicas(deployment: Deployment, client: Client): Promise<void> {
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
export function deploymentOf(bookStore: BookStore, { app }: Settings): Manifest<Deployment> {
  const { container, replicas, targetPort } = app;
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
        spec: {
          automountServiceAccountToken: false,
          containers: [
            {
              name: 'app',
              ...container,
              ports: [{ name: 'http', containerPort: targetPort }],
              readinessProbe: readyWhenListening(targetPort),
            },
          ],
        },
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
