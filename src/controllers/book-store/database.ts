import type { BookStore } from '../../api/index.ts';
import { isControlledBy, type ReadonlyStore, type ReconcileContext } from '../../runtime/index.ts';
import { type PersistentVolumeClaim, Service, type StatefulSet } from '../built-in-kinds.ts';
import { isRefusal } from '../refusal.ts';
import type { PartFinding } from './book-store-status.ts';
import { inUse, ordinalOf } from './claims.ts';
import { databaseServiceOf } from './database-children.ts';
import { settled, volumeFinding } from './database-findings.ts';
import { type DatabaseOutcome, DatabaseSet, type DatabaseSetOptions } from './database-set.ts';
import { growthOf } from './growth.ts';
import { selectorLabels, statefulSetKey } from './names.ts';
import { nameTaken, refused, replacingService } from './refused.ts';
import { type Settings, settingsOf } from './settings.ts';
import { problemOf } from './spec-problem.ts';

/** What the database is read and written by. */
export interface DatabaseOptions extends DatabaseSetOptions {
  readonly services: ReadonlyStore<Service>;
  /** The claims of a BookStore's StatefulSet, by their names. */
  readonly claimsOf: (store: BookStore) => Iterable<PersistentVolumeClaim>;
}

/** How a reconcile has left the Service: nothing to be said where it is as it is wanted. */
interface ServiceOutcome {
  readonly database?: PartFinding;
  /** Why what the app would dial is somebody else's database, if it is. */
  readonly elsewhere?: PartFinding;
  readonly error?: unknown;
}

/** Keeps a BookStore's database: a headless Service, a StatefulSet, and claims that grow. */
export class Database {
  readonly #options: DatabaseOptions;
  readonly #set: DatabaseSet;

  constructor(options: DatabaseOptions) {
    this.#options = options;
    this.#set = new DatabaseSet(options);
  }

  /** @throws whatever the client throws, but for a refusal, which is in the outcome. */
  async reconcile(
    store: BookStore,
    settings: Settings,
    context: ReconcileContext,
  ): Promise<DatabaseOutcome & Pick<ServiceOutcome, 'elsewhere'>> {
    const service = await this.#keepService(store, settings, context);
    const { elsewhere } = service;
    // What is there is cared for all the same.
    if (elsewhere !== undefined && this.#own(store) === undefined) {
      return { database: elsewhere, volume: settled, claims: inUse(this.#claims(store), settings), elsewhere };
    }
    return { ...(await this.#keepSet(store, settings, context)), ...service };
  }

  /** The claims that the StatefulSet's pods use or will use, in the order of the pods, whoever created them. */
  claims(store: BookStore): readonly PersistentVolumeClaim[] {
    return problemOf(store) === undefined ? this.#claims(store) : [];
  }

  async #keepService(store: BookStore, settings: Settings, { client }: ReconcileContext): Promise<ServiceOutcome> {
    const { applier, services } = this.#options;
    try {
      const applied = await applier.apply(Service, databaseServiceOf(store, settings), { client, store: services });
      if (applied.type === 'terminating') return { database: replacingService(applied.object) };
      if (applied.type !== 'nameTaken') return {};
      const advice =
        'delete it, or create this BookStore again with another bookDB.serviceName, and have the app dial that';
      const elsewhere = nameTaken(store, Service, applied.holder, advice);
      return { database: elsewhere, elsewhere };
    } catch (error) {
      if (!isRefusal(error)) throw error;
      return { database: refused(error), error };
    }
  }

  async #keepSet(store: BookStore, settings: Settings, context: ReconcileContext): Promise<DatabaseOutcome> {
    const all = this.#claims(store);
    try {
      return await this.#set.keep(store, settings, all, context);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      const claims = inUse(all, settings);
      const volume = volumeFinding({ claims }, growthOf(claims, settings.database.size), settings);
      return { database: refused(error), volume, statefulSet: this.#own(store), claims, error };
    }
  }

  #own(store: BookStore): StatefulSet | undefined {
    const present = this.#options.statefulSets.get(statefulSetKey(store));
    return present !== undefined && isControlledBy(present, store) ? present : undefined;
  }

  /** Those that the StatefulSet has or will take up, in the order of their pods. */
  #claims(store: BookStore): readonly PersistentVolumeClaim[] {
    const { database } = settingsOf(store);
    const labels = Object.entries(selectorLabels(store, 'database'));
    // Whoever made one of a pod that is to be: it will be taken up. Of others only what a StatefulSet has made.
    const claims = [...this.#options.claimsOf(store)].filter(
      (claim) =>
        ordinalOf(claim) < database.replicas ||
        labels.every(([label, value]) => claim.metadata.labels?.[label] === value),
    );
    return claims.sort((one, other) => ordinalOf(one) - ordinalOf(other));
  }
}
