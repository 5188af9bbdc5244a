import { BookStore } from '../../api/index.ts';
import {
  type ApiError,
  type Applied,
  type Applier,
  type Client,
  type EventRecorder,
  findCondition,
  isControlledBy,
  type ReadonlyStore,
  type ReconcileContext,
} from '../../runtime/index.ts';
import { ControllerRevision, PersistentVolumeClaim, Service, StatefulSet } from '../built-in-kinds.ts';
import { isRefusal } from '../refusal.ts';
import { isCurrent } from '../report-ready.ts';
import type { PartFinding, VolumeFinding } from './book-store-status.ts';
import { isForeign, keepClaims, ordinalOf } from './claims.ts';
import {
  databaseServiceOf,
  type Fixed,
  fixedOf,
  isFixedOtherwise,
  statefulSetOf,
  wantedFixed,
} from './database-children.ts';
import { databaseFinding, recreating, replacing, settled, volumeFinding } from './database-findings.ts';
import { type Growth, growthOf } from './growth.ts';
import { selectorLabels, statefulSetKey } from './names.ts';
import { restartForVolume } from './pod-restart.ts';
import { beginRecreation, endRecreation, forget, isKept, keptOf, readKept, recreate } from './recreation.ts';
import { nameTaken, refused } from './refused.ts';
import { rolloutOf } from './rollout.ts';
import { type Settings, settingsOf } from './settings.ts';
import { problemOf } from './spec-problem.ts';

/** What the database is read and written by. */
export interface DatabaseOptions {
  readonly services: ReadonlyStore<Service>;
  readonly statefulSets: ReadonlyStore<StatefulSet>;
  readonly revisions: ReadonlyStore<ControllerRevision>;
  /** The claims of a BookStore's StatefulSet, by their names. */
  readonly claimsOf: (store: BookStore) => Iterable<PersistentVolumeClaim>;
  readonly applier: Applier;
  readonly events: EventRecorder;
}

/** How a reconcile has left the database. */
export interface DatabaseOutcome {
  readonly database: PartFinding | undefined;
  readonly volume: VolumeFinding;
  readonly statefulSet?: StatefulSet | undefined;
  readonly claims: readonly PersistentVolumeClaim[];
  /** Why what the app would dial is somebody else's database, if it is. */
  readonly elsewhere?: PartFinding;
  /** When to look again, in milliseconds. */
  readonly requeueAfterMs?: number | undefined;
  /** The API server's refusal of a child. */
  readonly error?: ApiError;
}

/** A class that lets no volume grow may be changed, and a watch of classes would need a role in the whole cluster. */
const refusedAgainAfterMs = 60_000;

/** A change of the pods waits for a growth no longer than this. */
const longestWaitMs = 15 * 60_000;

/** Keeps a BookStore's database: a headless Service, a StatefulSet, and claims that grow. */
export class Database {
  readonly #options: DatabaseOptions;

  constructor(options: DatabaseOptions) {
    this.#options = options;
  }

  /** @throws whatever the client throws, but for a refusal, which is in the outcome. */
  async reconcile(store: BookStore, settings: Settings, context: ReconcileContext): Promise<DatabaseOutcome> {
    const all = this.#claims(store);
    const claims = inUse(all, settings);
    try {
      const service = await this.#options.applier.apply(Service, databaseServiceOf(store, settings), {
        client: context.client,
        store: this.#options.services,
      });
      if (service.type === 'nameTaken') {
        const advice = 'set another bookDB.serviceName, and have the app dial that';
        const elsewhere = nameTaken(store, Service, service.holder, advice);
        // What is there is cared for all the same.
        const own = this.#own(store);
        if (own === undefined) return { database: elsewhere, volume: settled, claims, elsewhere };
        return { ...(await this.#keepStatefulSet(store, settings, all, context)), database: elsewhere, elsewhere };
      }
      return await this.#keepStatefulSet(store, settings, all, context);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      const volume = volumeFinding({ claims }, growthOf(claims, settings.database.size), settings);
      return { database: refused(error), volume, statefulSet: this.#own(store), claims, error };
    }
  }

  /** What there is that holds the data, or will. */
  held(store: BookStore): {
    readonly statefulSet: StatefulSet | undefined;
    readonly claims: readonly PersistentVolumeClaim[];
  } {
    const claims = problemOf(store) === undefined ? this.#claims(store) : [];
    return { statefulSet: this.#options.statefulSets.get(statefulSetKey(store)), claims };
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

  async #keepStatefulSet(
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
    const { applier, statefulSets } = this.#options;
    const { name } = statefulSetKey(store);
    const foreign = foreignClaim(store, claims, name);
    if (foreign !== undefined) return { database: foreign, volume: settled, claims };
    const left = kept ?? (await readKept(store, client));
    if (left !== undefined) {
      // One that is gone by now must leave nothing behind that nobody owns.
      if (!(await isCurrent(client, BookStore, store))) return { database: undefined, volume: recreating, claims };
      const made = await recreate(store, left, { client, applier, statefulSets });
      if (made.type === 'nameTaken') return { database: taken(store, made.holder), volume: settled, claims };
      return { database: undefined, volume: recreating, claims };
    }
    const applied = await this.#apply(store, settings, wantedFixed(settings, undefined), client);
    if (applied.type === 'nameTaken') return { database: taken(store, applied.holder), volume: settled, claims };
    const statefulSet = applied.object;
    return { database: databaseFinding(statefulSet), volume: settled, statefulSet, claims };
  }

  async #grow(
    present: StatefulSet,
    store: BookStore,
    settings: Settings,
    all: readonly PersistentVolumeClaim[],
    context: ReconcileContext,
  ): Promise<DatabaseOutcome> {
    const { applier, revisions } = this.#options;
    const { client } = context;
    const ours = all.filter(
      (claim) => claim.metadata.deletionTimestamp === undefined && !isForeign(claim, present.metadata.name),
    );
    const outcome = await keepClaims(client, settings, ours);
    const claims = inUse(outcome.claims, settings);
    const growth = growthOf(claims, settings.database.size);
    const foreign = foreignClaim(store, inUse(all, settings), present.metadata.name);
    if (foreign !== undefined) {
      return { database: foreign, volume: volumeFinding(outcome, growth, settings), statefulSet: present, claims };
    }
    const fixed = fixedOf(present);
    const wanted = wantedFixed(settings, fixed);
    // What no claim can have, later ones are not given either.
    const target = outcome.refusal === undefined ? wanted : { ...wanted, size: fixed.size };
    const isOtherwise = isFixedOtherwise(target, fixed);
    const isDue = isOtherwise && (growth.unfinished.length === 0 || outcome.refusal !== undefined);
    const waits = isDue || (isOtherwise && isWorthWaitingFor(store, present, growth));
    const applied = waits ? undefined : await this.#apply(store, settings, fixed, client);
    if (applied?.type === 'nameTaken') return { database: taken(store, applied.holder), volume: settled, claims };
    const statefulSet = applied?.object ?? present;
    const volume = volumeFinding(outcome, growth, settings);
    if (isDue) {
      const holder = await beginRecreation(store, statefulSet, target, { client, applier, revisions });
      if (holder === undefined) return { database: undefined, volume: recreating, statefulSet, claims };
      // All else goes on meanwhile.
      await this.#apply(store, settings, fixed, client);
      const finding = nameTaken(store, ControllerRevision, holder, 'delete it');
      return { database: finding, volume, statefulSet, claims };
    }
    // Of a recreation that is not wanted any more.
    const kept = keptOf(revisions, store);
    if (kept !== undefined) await forget(kept, client);
    const lookAgainMs = await this.#restartPending(growth, statefulSet, store, settings, context);
    return {
      database: databaseFinding(statefulSet),
      volume,
      statefulSet,
      claims,
      requeueAfterMs: outcome.refusal === undefined ? soonest(lookAgainMs, waits) : refusedAgainAfterMs,
    };
  }

  #apply(store: BookStore, settings: Settings, fixed: Fixed, client: Client): Promise<Applied<StatefulSet>> {
    const { applier, statefulSets } = this.#options;
    return applier.apply(StatefulSet, statefulSetOf(store, settings, fixed), { client, store: statefulSets });
  }

  /** When to look at the first of them again, in milliseconds. */
  async #restartPending(
    { pending }: Growth,
    statefulSet: StatefulSet,
    store: BookStore,
    settings: Settings,
    { client, log }: ReconcileContext,
  ): Promise<number | undefined> {
    const delaysMs: number[] = [];
    for (const volume of pending) {
      const look = await restartForVolume(client, store, settings, statefulSet, volume, Date.now());
      if (look.type !== 'grown') delaysMs.push(look.delayMs);
      if (look.type === 'later' || look.type === 'grown') continue;
      const note = `pod ${look.pod} restarted: the file system of ${volume.claim} has not grown under it`;
      log.info({ pod: look.pod }, 'a pod is restarted for its volume to grow');
      this.#options.events.record(BookStore, store, {
        type: 'Normal',
        reason: 'PodRestarted',
        action: 'Restart',
        note,
      });
      // One at a time.
      break;
    }
    return delaysMs.length === 0 ? undefined : Math.min(...delaysMs);
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

/** Those of pods that there are to be. Others are of pods that were, and may be again. */
const inUse = (claims: readonly PersistentVolumeClaim[], { database }: Settings): readonly PersistentVolumeClaim[] =>
  claims.filter((claim) => ordinalOf(claim) < database.replicas);

/**
 * Whether a change of the pods waits for their volumes to grow. Not for long, and not where it may be what helps: where a
 * database is not ready, or a volume does not grow.
 */
function isWorthWaitingFor(store: BookStore, present: StatefulSet, { errors }: Growth): boolean {
  if (errors.length > 0 || !rolloutOf(present).isComplete) return false;
  const growing = findCondition(store.status?.conditions, 'VolumeResizing');
  return growing?.status !== 'True' || Date.now() - Date.parse(growing.lastTransitionTime) < longestWaitMs;
}

/** The time after which to look again: at a volume, and at what waits for it. */
function soonest(lookAgainMs: number | undefined, waits: boolean): number | undefined {
  if (!waits) return lookAgainMs;
  return Math.min(lookAgainMs ?? longestWaitMs, longestWaitMs);
}
