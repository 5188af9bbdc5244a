import type { BookStore } from '../../api/index.ts';
import {
  type Applied,
  type Applier,
  type Client,
  type EventRecorder,
  isControlledBy,
  type ReadonlyStore,
  type ReconcileContext,
} from '../../runtime/index.ts';
import { PersistentVolumeClaim, StatefulSet } from '../built-in-kinds.ts';
import type { PartFinding, VolumeFinding } from './book-store-status.ts';
import { inUse, isForeign, keepClaims } from './claims.ts';
import { statefulSetOf } from './database-children.ts';
import { databaseFinding, leavingClaim, replacing, settled, volumeFinding } from './database-findings.ts';
import { growthOf } from './growth.ts';
import { statefulSetKey } from './names.ts';
import { restartPending } from './pod-restart.ts';
import { nameTaken } from './refused.ts';
import type { Settings } from './settings.ts';

/** What the StatefulSet is read and written by. */
export interface DatabaseSetOptions {
  readonly statefulSets: ReadonlyStore<StatefulSet>;
  readonly applier: Applier;
  readonly events: EventRecorder;
}

/** How a reconcile has left the database. */
export interface DatabaseOutcome {
  readonly database: PartFinding;
  readonly volume: VolumeFinding;
  readonly statefulSet?: StatefulSet | undefined;
  readonly claims: readonly PersistentVolumeClaim[];
  /** When to look again, in milliseconds. */
  readonly requeueAfterMs?: number | undefined;
  /** The API server's refusal of a child. */
  readonly error?: unknown;
}

/** What has refused may be changed, and nobody tells: a watch of classes, say, would need a role in the whole cluster. */
const refusedAgainAfterMs = 60_000;

/** Keeps a database's StatefulSet and the claims of its pods. */
export class DatabaseSet {
  readonly #options: DatabaseSetOptions;

  constructor(options: DatabaseSetOptions) {
    this.#options = options;
  }

  /**
   * @param all the claims that it has or will take up, in the order of its pods.
   * @throws whatever the client throws.
   */
  async keep(
    store: BookStore,
    settings: Settings,
    all: readonly PersistentVolumeClaim[],
    context: ReconcileContext,
  ): Promise<DatabaseOutcome> {
    const claims = inUse(all, settings);
    const present = this.#options.statefulSets.get(statefulSetKey(store));
    if (present === undefined) return this.#create(store, settings, claims, context);
    if (!isControlledBy(present, store)) return { database: taken(store, present), volume: settled, claims };
    if (present.metadata.deletionTimestamp !== undefined) return { database: replacing, volume: settled, claims };
    return this.#update(present, store, settings, all, context);
  }

  async #create(
    store: BookStore,
    settings: Settings,
    claims: readonly PersistentVolumeClaim[],
    { client }: ReconcileContext,
  ): Promise<DatabaseOutcome> {
    const foreign = foreignClaim(store, claims, statefulSetKey(store).name);
    if (foreign !== undefined) return { database: foreign, volume: settled, claims };
    const applied = await this.#apply(store, settings, undefined, client);
    if (applied.type === 'nameTaken') return { database: taken(store, applied.holder), volume: settled, claims };
    const statefulSet = applied.object;
    return { database: databaseFinding(statefulSet), volume: settled, statefulSet, claims };
  }

  async #update(
    present: StatefulSet,
    store: BookStore,
    settings: Settings,
    all: readonly PersistentVolumeClaim[],
    context: ReconcileContext,
  ): Promise<DatabaseOutcome> {
    const { client } = context;
    const { name } = present.metadata;
    const ours = all.filter((claim) => claim.metadata.deletionTimestamp === undefined && !isForeign(claim, name));
    const outcome = await keepClaims(client, store, settings, ours);
    const claims = inUse(outcome.claims, settings);
    const growth = growthOf(claims, settings.database.size);
    const volume = volumeFinding(outcome, growth, settings);
    const leaving = leavingClaim(inUse(all, settings));
    if (leaving !== undefined) return { database: leaving, volume, statefulSet: present, claims };
    const foreign = foreignClaim(store, inUse(all, settings), name);
    const allowed = foreign === undefined ? settings : withoutMoreReplicas(settings, present);
    const applied = await this.#apply(store, allowed, present, client);
    if (applied.type === 'nameTaken') return { database: taken(store, applied.holder), volume: settled, claims };
    const statefulSet = applied.object;
    const { events } = this.#options;
    const lookAgainMs = await restartPending(growth, statefulSet, store, settings, { ...context, events });
    const requeueAfterMs = outcome.refusal === undefined ? lookAgainMs : refusedAgainAfterMs;
    return { database: foreign ?? databaseFinding(statefulSet), volume, statefulSet, claims, requeueAfterMs };
  }

  #apply(
    store: BookStore,
    settings: Settings,
    present: StatefulSet | undefined,
    client: Client,
  ): Promise<Applied<StatefulSet>> {
    const { applier, statefulSets } = this.#options;
    return applier.apply(StatefulSet, statefulSetOf(store, settings, present), { client, store: statefulSets });
  }
}

/** Whether somebody else's claim would become the database. */
function foreignClaim(
  store: BookStore,
  claims: readonly PersistentVolumeClaim[],
  statefulSetName: string,
): PartFinding | undefined {
  const foreign = claims.find((claim) => isForeign(claim, statefulSetName));
  if (foreign === undefined) return undefined;
  const advice = 'its data would become the database. Delete it, or take its controller reference off';
  return nameTaken(store, PersistentVolumeClaim, foreign, advice);
}

const taken = (store: BookStore, holder: StatefulSet): PartFinding =>
  nameTaken(store, StatefulSet, holder, 'delete one of the two');

/** A pod more would take up what is not its own. */
function withoutMoreReplicas(settings: Settings, { spec }: StatefulSet): Settings {
  const { database } = settings;
  return { ...settings, database: { ...database, replicas: Math.min(database.replicas, spec?.replicas ?? 1) } };
}
