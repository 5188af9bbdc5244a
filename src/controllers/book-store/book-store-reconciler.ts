import { BookStore } from '../../api/index.ts';
import { isCurrent, specProblem } from '../../runtime/controller/index.ts';
import {
  type Applier,
  done,
  type EventRecorder,
  type ObjectKey,
  OutcomeReporter,
  type ReadonlyStore,
  type ReasonOf,
  type ReconcileContext,
  type Result,
} from '../../runtime/index.ts';
import type { Deployment, PersistentVolumeClaim, Pod, Service, StatefulSet } from '../../runtime/kinds/index.ts';
import type { PodDefaults } from '../pod-defaults.ts';
import { untilOverdueMs } from '../pods.ts';
import { refusedOutcome } from '../refusal.ts';
import { reconcileApp } from './app.ts';
import { claimsOfDatabase } from './claims.ts';
import { minOf, reconcileDatabase } from './database.ts';
import { bookStoreUidLabel, specWithDefaultsOf, statefulSetKey } from './desired.ts';
import { reconcileReclaimPolicy } from './reclaim.ts';
import {
  type BookStoreOutcome,
  bookStoreReasons,
  kubectlCommand,
  outcomeOf,
  type RecordEvent,
  volumeCondition,
} from './status.ts';
import { volumesNotChecked } from './volume-outcome.ts';

/** Options of {@link BookStoreReconciler}. */
export interface BookStoreReconcilerOptions {
  readonly bookStores: ReadonlyStore<BookStore>;
  readonly deployments: ReadonlyStore<Deployment>;
  readonly statefulSets: ReadonlyStore<StatefulSet>;
  readonly services: ReadonlyStore<Service>;
  readonly pods: ReadonlyStore<Pod>;
  /** The pods of a BookStore's app, by their labels. */
  readonly appPods: (bookStore: BookStore) => Iterable<Pod>;
  /** The claims that have the names of a BookStore's StatefulSet, whoever created them. */
  readonly claimsOf: (bookStore: BookStore) => Iterable<PersistentVolumeClaim>;
  /** The defaults of all pods. The spec can replace their security contexts. */
  readonly podDefaults: PodDefaults;
  readonly applier: Pick<Applier, 'apply'>;
  readonly events: EventRecorder;
}

/** Reconciles the app and the database of a BookStore with its spec. */
export class BookStoreReconciler {
  readonly #options: BookStoreReconcilerOptions;
  readonly #reporter: OutcomeReporter<BookStore, ReasonOf<typeof bookStoreReasons>>;

  constructor(options: BookStoreReconcilerOptions) {
    this.#options = options;
    this.#reporter = new OutcomeReporter({
      kind: BookStore,
      reasons: bookStoreReasons,
      events: options.events,
      refused: (bookStore, refusal) => {
        const outcome = refusedOutcome(refusal);
        return { ...outcome, conditions: [volumeCondition(volumesNotChecked(bookStore, outcome))] };
      },
    });
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<Result> {
    const bookStore = this.#options.bookStores.get(key);
    if (bookStore === undefined) return done;
    const options = {
      client: context.client,
      recordEvent: (notice: Parameters<RecordEvent>[0]) => this.#reporter.recordEvent(bookStore, notice, context),
      // Not called while the BookStore is being deleted: the garbage collector deletes the children.
      apply: (current: BookStore) => this.#reporter.reconcile(current, context, () => this.#apply(current, context)),
      reportStatefulSetDeletion: (name: string, requeueAfterMs: number) => {
        const label = `${bookStoreUidLabel}=${bookStore.metadata.uid}`;
        const command = kubectlCommand(bookStore, `get statefulset ${name} --output yaml`);
        const message = `waiting for StatefulSet ${name} to be deleted; if that takes long, see its metadata.finalizers (${command}); then the operator deletes its claims with the label ${label}`;
        return this.#reporter.report(bookStore, { reason: 'Deleting', message, requeueAfterMs }, context);
      },
    };
    return this.#reporter.reconcile(bookStore, context, () => reconcileReclaimPolicy(bookStore, options));
  }

  /** Undefined if the cached BookStore is stale: an event will enqueue its key. */
  async #apply(bookStore: BookStore, context: ReconcileContext): Promise<BookStoreOutcome | undefined> {
    const problem = specProblem(BookStore, bookStore);
    if (problem !== undefined) {
      const command = kubectlCommand(bookStore, `edit bookstore ${bookStore.metadata.name}`);
      return { reason: 'InvalidSpec', message: `${problem}: correct it (${command})` };
    }
    const spec = specWithDefaultsOf(bookStore);
    const { client } = context;
    // A BookStore that is deleted already would get a StatefulSet. The garbage collector would delete that, but not its claims.
    const isMissing = this.#options.statefulSets.get(statefulSetKey(bookStore)) === undefined;
    if (isMissing && !(await isCurrent(client, BookStore, bookStore))) return undefined;
    const allClaims = claimsOfDatabase(this.#options.claimsOf(bookStore), bookStore, spec.database.replicas);
    const applier = this.#applierWithEvents(bookStore, context);
    const recordEvent: RecordEvent = (notice) => this.#reporter.recordEvent(bookStore, notice, context);
    const options = { ...this.#options, applier, client, recordEvent, allClaims };
    const database = await reconcileDatabase(bookStore, spec, options);
    const app = await reconcileApp(bookStore, spec, database.serviceTaken, options);
    const outcome = outcomeOf(bookStore, spec, app, database);
    const { appPods, pods } = this.#options;
    const allPods = [...appPods(bookStore), ...pods.byOwner(database.statefulSet?.metadata.uid ?? '')];
    return { ...outcome, requeueAfterMs: minOf(outcome.requeueAfterMs, untilOverdueMs(allPods)) };
  }

  /** The applier, with an Event for each child that it creates or changes. */
  #applierWithEvents(bookStore: BookStore, context: ReconcileContext): Pick<Applier, 'apply'> {
    return {
      apply: async (kind, desired, child) => {
        const applied = await this.#options.applier.apply(kind, desired, child);
        this.#reporter.recordChild(bookStore, kind, applied, context);
        return applied;
      },
    };
  }
}
