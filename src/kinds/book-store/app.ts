import { builtInKind, type Client } from '@echoperator/runtime';
import { isRefusal } from '@echoperator/runtime/client';
import { type Child, refusedOutcome, replacingOutcome } from '@echoperator/runtime/controller';
import { Deployment, type Pod, Service } from '@echoperator/runtime/kinds';
import type { PodDefaults } from '../shared/pod-defaults.ts';
import { problemAmong } from '../shared/pods.ts';
import type { BookStoreContext } from './context.ts';
import {
  appServiceKey,
  childMetadata,
  deploymentKey,
  podMetadataFor,
  podSpecOf,
  readyWhenListening,
  type SpecWithDefaults,
  selectorLabels,
} from './desired.ts';
import type { BookStore } from './kind.ts';
import { withLink } from './reasons.ts';
import { type AppResult, type ComponentOutcome, kubectlCommand, nameTakenOutcome, rolloutOf } from './status.ts';

/** Options of {@link reconcileApp}. */
export interface AppOptions {
  readonly context: Pick<BookStoreContext, 'owned' | 'tryApply' | 'delete' | 'client'>;
  readonly podDefaults: PodDefaults;
  /** The pods of the app. */
  readonly pods: readonly Pod[];
}

/**
 * Applies the Deployment and the Service of the app. When the app is ready, deletes the Service of an earlier name.
 *
 * @param databaseServiceTaken the outcome if the database's Service does not belong to this BookStore. The app would
 *   connect to another database, so neither its Deployment nor its Service is changed. Undefined if the Service belongs
 *   to this BookStore.
 * @throws any error of the client, except a refusal, which the result contains.
 */
export async function reconcileApp(
  bookStore: BookStore,
  spec: SpecWithDefaults,
  databaseServiceTaken: ComponentOutcome | undefined,
  options: AppOptions,
): Promise<AppResult> {
  const { name } = deploymentKey(bookStore);
  const existing = options.context.owned(Deployment).find(({ metadata }) => metadata.name === name);
  if (databaseServiceTaken !== undefined) {
    const { serviceName } = spec.database;
    const message = `Deployment ${name} is not changed: it would connect to Service ${serviceName}, which does not belong to this BookStore`;
    const { reason } = databaseServiceTaken;
    return { app: { reason, message: withLink(message, reason) }, deployment: existing };
  }
  try {
    return await applyApp(bookStore, spec, existing, options);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return { app: refusedOutcome(error), deployment: existing, error };
  }
}

async function applyApp(
  bookStore: BookStore,
  spec: SpecWithDefaults,
  existing: Deployment | undefined,
  { context, podDefaults, pods }: AppOptions,
): Promise<AppResult> {
  if (spec.app.replicas === undefined && existing !== undefined) await releaseReplicas(existing, context.client);
  const manifest = deploymentOf(bookStore, spec, podDefaults);
  const applied = await context.tryApply(Deployment, manifest);
  const service = await context.tryApply(Service, appServiceOf(bookStore, spec));
  if (applied.type === 'nameTaken') {
    return { app: nameTakenOutcome(bookStore, Deployment, applied.holder) };
  }
  const deployment = applied.object;
  if (service.type === 'nameTaken') {
    return { app: nameTakenOutcome(bookStore, Service, service.holder), deployment };
  }
  if (service.type === 'terminating') return { app: replacingOutcome(Service, service.object), deployment };
  if (applied.type === 'terminating') return { app: replacingOutcome(Deployment, deployment), deployment };
  const app = appOutcome(bookStore, deployment, pods);
  if (app.reason === 'AppServing') {
    for (const old of earlierServices(context.owned(Service), spec)) {
      // If somebody has removed the owner reference to keep the Service, this is a Conflict, and the retry leaves it
      // alone.
      await context.delete(Service, old, { resourceVersion: old.metadata.resourceVersion });
    }
  }
  return { app, deployment };
}

function appOutcome(bookStore: BookStore, deployment: Deployment, pods: Iterable<Pod>): ComponentOutcome {
  const { name } = deployment.metadata;
  const { desired, ready, updated, isComplete } = rolloutOf(deployment);
  const readyPods = `${ready} of ${desired} pods of Deployment ${name} are ready`;
  if (isComplete) return { reason: 'AppServing', message: readyPods };
  const detail =
    problemAmong(pods) ??
    replicaFailure(deployment) ??
    `${updated} have the current template (${kubectlCommand(bookStore, `describe deployment ${name}`)})`;
  return { reason: 'AppUpdating', message: `${readyPods}: ${detail}` };
}

/**
 * Why the API server refuses the app's pods or its ReplicaSet, for example a quota or a policy. No pod exists that
 * could show it.
 */
const replicaFailure = ({ status }: Deployment): string | undefined =>
  status?.conditions?.find(
    ({ type, status: is, reason }) =>
      (type === 'ReplicaFailure' && is === 'True') || (type === 'Progressing' && reason === 'ReplicaSetCreateError'),
  )?.message;

/** The Services of a BookStore whose names its spec no longer has. @param owned all Services that it controls */
export const earlierServices = (owned: readonly Service[], { app, database }: SpecWithDefaults): readonly Service[] =>
  owned.filter(
    (service) =>
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
 * Keeps the current number of replicas when the BookStore stops setting it, so that an autoscaler continues from there.
 * An apply without replicas would reset them to 1, so another field manager takes over the field first.
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
export function deploymentOf(
  bookStore: BookStore,
  spec: SpecWithDefaults,
  podDefaults: PodDefaults,
): Child<Deployment> {
  const { app } = spec;
  const { replicas, targetPort } = app;
  return {
    metadata: {
      ...childMetadata(bookStore, deploymentKey(bookStore), 'app'),
      ...(replicas !== undefined && { annotations: { [replicasAnnotation]: String(replicas) } }),
    },
    spec: {
      ...(replicas !== undefined && { replicas }),
      selector: { matchLabels: selectorLabels(bookStore, 'app') },
      template: {
        metadata: podMetadataFor(bookStore, 'app', spec, podDefaults),
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
function appServiceOf(bookStore: BookStore, { app }: SpecWithDefaults): Child<Service> {
  const { port, targetPort, serviceType } = app;
  return {
    metadata: childMetadata(bookStore, appServiceKey(bookStore), 'app'),
    spec: {
      type: serviceType,
      selector: selectorLabels(bookStore, 'app'),
      ports: [{ name: 'http', protocol: 'TCP', port, targetPort }],
    },
  };
}
