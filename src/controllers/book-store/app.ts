import type { BookStore } from '../../api/index.ts';
import {
  type ApiError,
  type Applier,
  builtInKind,
  type Client,
  isControlledBy,
  type ReadonlyStore,
  type ReconcileContext,
} from '../../runtime/index.ts';
import { Deployment, Service } from '../built-in-kinds.ts';
import { isRefusal } from '../refusal.ts';
import { appServiceOf, deploymentOf, replicasAnnotation } from './app-children.ts';
import type { PartFinding } from './book-store-status.ts';
import { databaseServiceKey, deploymentKey } from './names.ts';
import { nameTaken, refused, replacingService } from './refused.ts';
import { rolloutOf } from './rollout.ts';
import type { Settings } from './settings.ts';

/** What the app is read and written by. */
export interface AppOptions {
  readonly services: ReadonlyStore<Service>;
  readonly deployments: ReadonlyStore<Deployment>;
  readonly applier: Applier;
}

/** How a reconcile has left the app. */
export interface AppOutcome {
  readonly app: PartFinding;
  readonly deployment?: Deployment | undefined;
  /** The API server's refusal of a child. */
  readonly error?: ApiError;
}

/** Has what a BookStore no longer asks for and nobody else does either, so that it stays as it is. */
const replicasManager = 'echoperator-replicas';

/** A Deployment as far as its replicas go. */
const DeploymentReplicas = builtInKind<{ spec: { replicas: number } }>({
  group: 'apps',
  version: 'v1',
  kind: 'Deployment',
  plural: 'deployments',
});

/** Keeps a BookStore's app: a Deployment and a Service. */
export class App {
  readonly #options: AppOptions;

  constructor(options: AppOptions) {
    this.#options = options;
  }

  /**
   * @param elsewhere why what the app would dial is somebody else's database, if it is: then it is not started.
   * @throws whatever the client throws, but for a refusal, which is in the outcome.
   */
  async reconcile(
    store: BookStore,
    settings: Settings,
    elsewhere: PartFinding | undefined,
    { client }: ReconcileContext,
  ): Promise<AppOutcome> {
    const present = this.#present(store);
    if (elsewhere !== undefined) {
      const { name } = databaseServiceKey(store);
      const message = `the app is not touched while Service ${name} leads to a database that is not this BookStore's`;
      return { app: { reason: elsewhere.reason, message }, deployment: present };
    }
    try {
      return await this.#keep(store, settings, client);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      return { app: refused(error), deployment: present, error };
    }
  }

  #present(store: BookStore): Deployment | undefined {
    const present = this.#options.deployments.get(deploymentKey(store));
    return present !== undefined && isControlledBy(present, store) ? present : undefined;
  }

  async #keep(store: BookStore, settings: Settings, client: Client): Promise<AppOutcome> {
    const { applier, deployments, services } = this.#options;
    await this.#giveUpReplicas(store, settings, client);
    const applied = await applier.apply(Deployment, deploymentOf(store, settings), { client, store: deployments });
    const service = await applier.apply(Service, appServiceOf(store, settings), { client, store: services });
    if (applied.type === 'nameTaken') {
      return { app: nameTaken(store, Deployment, applied.holder, 'delete one of the two') };
    }
    const deployment = applied.object;
    if (service.type === 'nameTaken') {
      return { app: nameTaken(store, Service, service.holder, 'set another bookApp.serviceName'), deployment };
    }
    if (service.type === 'terminating') return { app: replacingService(service.object), deployment };
    if (applied.type === 'terminating') {
      return {
        app: { reason: 'Replacing', message: 'the Deployment is being deleted, and made again when it is gone' },
        deployment,
      };
    }
    return { app: appFinding(deployment), deployment };
  }

  /**
   * Replicas that the BookStore no longer names stay as they are, for an autoscaler to go on from. An apply without them
   * would unset them, which means 1: so another field manager has them too before.
   */
  async #giveUpReplicas(store: BookStore, { app }: Settings, client: Client): Promise<void> {
    const present = this.#present(store);
    if (app.replicas !== undefined || present?.metadata.annotations?.[replicasAnnotation] === undefined) return;
    const { name, namespace = '', uid, resourceVersion, deletionTimestamp } = present.metadata;
    if (deletionTimestamp !== undefined) return;
    const manifest = { metadata: { name, namespace }, spec: { replicas: rolloutOf(present).desired } };
    await client.apply(DeploymentReplicas, manifest, {
      fieldManager: replicasManager,
      force: true,
      uid,
      resourceVersion,
    });
  }
}

function appFinding(deployment: Deployment): PartFinding {
  const { desired, ready, updated, isComplete } = rolloutOf(deployment);
  if (isComplete) return { reason: 'AppServing', message: `${ready} of ${desired} pods of the app are ready` };
  const message = `${ready} of ${desired} pods of the app are ready, ${updated} are of the present template`;
  return { reason: 'AppUpdating', message };
}
