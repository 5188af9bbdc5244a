import { BookStore } from '../../api/index.ts';
import {
  done,
  type ObjectKey,
  type ReconcileContext,
  type Result,
  requeueAfter,
  TerminalError,
} from '../../runtime/index.ts';
import { isInvalidField } from '../refusal.ts';
import { reportReady } from '../report-ready.ts';
import { App, type AppOptions } from './app.ts';
import { invalidReport, partReasons, readyReport } from './book-store-status.ts';
import { Database, type DatabaseOptions } from './database.ts';
import { reconcileReclaimPolicy } from './reclaim.ts';
import { deleteServices, noLongerWanted } from './services.ts';
import { settingsOf } from './settings.ts';
import { problemOf } from './spec-problem.ts';

/** What the reconciler reads and writes by. */
export interface BookStoreReconcilerOptions extends AppOptions, DatabaseOptions {
  readonly stores: { get(key: ObjectKey): BookStore | undefined };
}

/** Keeps a BookStore's app and its database as it asks for them. */
export class BookStoreReconciler {
  readonly #options: BookStoreReconcilerOptions;
  readonly #database: Database;
  readonly #app: App;

  constructor(options: BookStoreReconcilerOptions) {
    this.#options = options;
    this.#database = new Database(options);
    this.#app = new App(options);
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<Result> {
    const store = this.#options.stores.get(key);
    if (store === undefined) return done;
    return reconcileReclaimPolicy(store, {
      client: context.client,
      events: this.#options.events,
      claims: this.#database.claims(store),
      apply: (current) => this.#keep(current, context),
    });
  }

  /** What it makes goes with it, but for the data: the garbage collector follows the owners. */
  async #keep(store: BookStore, context: ReconcileContext): Promise<Result> {
    const problem = problemOf(store);
    if (problem !== undefined) {
      await reportReady(this.#options.events, BookStore, store, invalidReport(store, problem, new Date()), context);
      return done;
    }
    const settings = settingsOf(store);
    const database = await this.#database.reconcile(store, settings, context);
    const app = await this.#app.reconcile(store, settings, database.elsewhere, context);
    const isServing = [app.app, database.database].every(({ reason }) => partReasons[reason].isReady);
    if (isServing) await deleteServices(context.client, noLongerWanted(this.#options.services, store, settings));
    const report = readyReport(store, { ...database, ...app }, new Date());
    await reportReady(this.#options.events, BookStore, store, report, context);
    const failures = [database.error, app.error].filter((error) => error !== undefined);
    const passing = failures.find((error) => !isInvalidField(error));
    if (passing !== undefined) throw passing;
    // A spec that is wrong is so until it is changed; the volumes go on growing all the same.
    const lasting = failures.find(isInvalidField);
    if (lasting !== undefined && database.requeueAfterMs === undefined) {
      throw new TerminalError(lasting.message, { cause: lasting });
    }
    return database.requeueAfterMs === undefined ? done : requeueAfter(database.requeueAfterMs);
  }
}
