import { BookStore } from '../../api/index.ts';
import {
  type ApiError,
  type Applied,
  type Applier,
  type Client,
  type EventRecorder,
  isControlledBy,
  type ReadonlyStore,
  type ReconcileContext,
} from '../../runtime/index.ts';
import { ControllerRevision, PersistentVolumeClaim, StatefulSet } from '../built-in-kinds.ts';
import { isRefusal } from '../refusal.ts';
import { isCurrent } from '../report-ready.ts';
import type { PartFinding, VolumeFinding } from './book-store-status.ts';
import { inUse, isForeign, keepClaims } from './claims.ts';
import { type Fixed, fixedOf, isFixedOtherwise, statefulSetOf, wantedFixed } from './database-children.ts';
import {
  databaseFinding,
  leavingClaim,
  notRecreated,
  orphaned,
  recreating,
  replacing,
  settled,
  volumeFinding,
} from './database-findings.ts';
import { growthOf } from './growth.ts';
import { forget, isKept, isOlder, keptOf, readKept } from './kept.ts';
import { statefulSetKey } from './names.ts';
import { waitLeftMs } from './patience.ts';
import { restartPending } from './pod-restart.ts';
import { beginRecreation, endRecreation, recreate } from './recreation.ts';
import { nameTaken } from './refused.ts';
import type { Settings } from './settings.ts';

/** What the StatefulSet is read and written by. */
export interface DatabaseSetOptions {
  readonly statefulSets: ReadonlyStore<StatefulSet>;
  readonly revisions: ReadonlyStore<ControllerRevision>;
  readonly applier: Applier;
  readonly events: EventRecorder;
}

/** How a reconcile has left the database. */
export interface DatabaseOutcome {
  readonly database: PartFinding | undefined;
  readonly volume: VolumeFinding;
  readonly statefulSet?: StatefulSet | undefined;
  readonly claims: readonly PersistentVolumeClaim[];
  /** When to look again, in milliseconds. */
  readonly requeueAfterMs?: number | undefined;
  /** The API server's refusal of a child, or what has failed besides. */
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
    const { statefulSets, revisions } = this.#options;
    const claims = inUse(all, settings);
    const present = statefulSets.get(statefulSetKey(store));
    const kept = keptOf(revisions, store);
    if (present === undefined) return this.#make(store, settings, claims, kept, context);
    if (!isControlledBy(present, store)) return { database: taken(store, present), volume: settled, claims };
    if (present.metadata.deletionTimestamp !== undefined) return { ...replacing(kept !== undefined), claims };
    if (kept !== undefined && !isKept(kept, present)) {
      await endRecreation(present, kept, context.client);
      return { database: undefined, volume: recreating, claims };
    }
    return this.#grow(present, store, settings, all, context);
  }

  async #make(
    store: BookStore,
    settings: Settings,
    claims: readonly PersistentVolumeClaim[],
    kept: ControllerRevision | undefined,
    { client }: ReconcileContext,
  ): Promise<DatabaseOutcome> {
    const left = kept ?? (await readKept(store, client));
    if (left !== undefined) {
      // One that is gone by now must leave nothing behind that nobody owns.
      if (!(await isCurrent(client, BookStore, store))) return { database: undefined, volume: recreating, claims };
      return this.#makeAnew(store, settings, claims, left, client);
    }
    const foreign = foreignClaim(store, claims, statefulSetKey(store).name);
    if (foreign !== undefined) return { database: foreign, volume: settled, claims };
    const applied = await this.#apply(store, settings, wantedFixed(settings, undefined), client);
    if (applied.type === 'nameTaken') return { database: taken(store, applied.holder), volume: settled, claims };
    const statefulSet = applied.object;
    return { database: databaseFinding(statefulSet), volume: settled, statefulSet, claims };
  }

  /** As it was kept; where the API server will not have that, as the BookStore asks for it, if that was changed since. */
  async #makeAnew(
    store: BookStore,
    settings: Settings,
    claims: readonly PersistentVolumeClaim[],
    kept: ControllerRevision,
    client: Client,
  ): Promise<DatabaseOutcome> {
    const { applier, statefulSets } = this.#options;
    const asKept = () => recreate(store, kept, { client, applier, statefulSets });
    const asAsked = () => this.#apply(store, settings, wantedFixed(settings, undefined), client);
    let refusal: ApiError | undefined;
    const isFree = foreignClaim(store, claims, statefulSetKey(store).name) === undefined;
    for (const make of isOlder(kept, store) && isFree ? [asKept, asAsked] : [asKept]) {
      try {
        const made = await make();
        if (made.type === 'nameTaken') return { database: taken(store, made.holder), volume: settled, claims };
        // What was kept says nothing of another one.
        if (make === asAsked) await forget(kept, client);
        return { database: undefined, volume: recreating, claims };
      } catch (error) {
        if (!isRefusal(error)) throw error;
        refusal = error;
      }
    }
    return { database: refusal && orphaned(refusal), volume: recreating, claims, error: refusal };
  }

  async #grow(
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
    const fixed = fixedOf(present);
    const wanted = wantedFixed(settings, fixed);
    // What no claim can have, later ones are not given either.
    const target = outcome.refusal === undefined ? wanted : { ...wanted, size: fixed.size };
    const isOtherwise = isFixedOtherwise(target, fixed);
    const waitMs = isOtherwise ? waitLeftMs(store, present, growth, Date.now()) : 0;
    const applied = waitMs > 0 ? undefined : await this.#apply(store, allowed, fixed, client);
    if (applied?.type === 'nameTaken') return { database: taken(store, applied.holder), volume: settled, claims };
    const statefulSet = applied?.object ?? present;
    if (isOtherwise && (growth.unfinished.length === 0 || outcome.refusal !== undefined)) {
      const begun = await this.#begin(statefulSet, store, target, claims, client);
      // All else goes on.
      if (begun.requeueAfterMs !== undefined) await this.#apply(store, allowed, fixed, client);
      return { ...begun, ...(foreign && { database: foreign }) };
    }
    // Of a recreation that is not wanted any more.
    const kept = keptOf(this.#options.revisions, store);
    if (kept !== undefined) await forget(kept, client);
    const { events } = this.#options;
    const lookAgainMs = await restartPending(growth, statefulSet, store, settings, { ...context, events });
    const isRefused = outcome.refusal !== undefined;
    const due = [isRefused ? refusedAgainAfterMs : undefined, lookAgainMs, waitMs > 0 ? waitMs : undefined];
    return {
      database: foreign ?? databaseFinding(statefulSet),
      volume,
      statefulSet,
      claims,
      requeueAfterMs: soonest(due),
    };
  }

  /** Has it made anew; where that cannot be, it says so, and when it is to be tried again. */
  async #begin(
    statefulSet: StatefulSet,
    store: BookStore,
    target: Fixed,
    claims: readonly PersistentVolumeClaim[],
    client: Client,
  ): Promise<DatabaseOutcome> {
    const { applier, revisions } = this.#options;
    const begun = { database: undefined, volume: recreating, statefulSet, claims };
    try {
      const beginning = await beginRecreation(store, statefulSet, target, { client, applier, revisions });
      if (beginning.type === 'begun') return begun;
      const words =
        beginning.type === 'refused'
          ? beginning.words
          : nameTaken(store, ControllerRevision, beginning.holder, 'delete it').message;
      const database = databaseFinding(statefulSet);
      return { ...begun, database, volume: notRecreated(words), requeueAfterMs: refusedAgainAfterMs };
    } catch (error) {
      // The status tells since when: what waits for it does not wait for ever.
      return { ...begun, error };
    }
  }

  #apply(store: BookStore, settings: Settings, fixed: Fixed, client: Client): Promise<Applied<StatefulSet>> {
    const { applier, statefulSets } = this.#options;
    return applier.apply(StatefulSet, statefulSetOf(store, settings, fixed), { client, store: statefulSets });
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

/** Of the times, in milliseconds, that are any. */
function soonest(timesMs: readonly (number | undefined)[]): number | undefined {
  const known = timesMs.filter((timeMs) => timeMs !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}
