import type { Applier } from '../apply/applier.ts';
import type { ReadonlyStore } from '../cache/store.ts';
import { isNotFound } from '../client/api-error.ts';
import type { Client } from '../client/client.ts';
import type { Gate } from '../client/gate.ts';
import type { Kind } from '../kind/kind.ts';
import type { KubeObject } from '../kind/object.ts';
import type { DesiredStatus } from '../kind/status-patch.ts';
import type { Logger } from '../shared/logger.ts';
import type { Context, Indexed, Reads } from './context.ts';
import type { FailedReconciles, ReconcileContext } from './controller.ts';
import { isCurrent } from './is-current.ts';
import type { Outcome, OutcomeReporter, ReportingContext, ReportingObject } from './outcome.ts';
import { type AnyOwned, OwnedChildren } from './owned-children.ts';
import { patchStatus } from './patch-status.ts';
import { type ReconcileCalls, ReconcileEnd } from './reconcile-end.ts';
import type { AskedNow } from './requested-children.ts';

/** One reconcile of one object. */
export interface Run<T extends ReportingObject> {
  readonly context: ReportingContext & ReconcileContext;
  /** The object after the last write. */
  object: T;
}

/** What an {@link ObjectContext} needs. */
export interface ObjectContextOptions<T extends ReportingObject, S, M, X extends Indexed> {
  readonly run: Run<T>;
  readonly kind: Kind<T>;
  /** By `viewedResource`. */
  readonly owned: ReadonlyMap<string, AnyOwned>;
  readonly reads: Reads<X>;
  readonly store: <C extends KubeObject>(kind: Kind<C>) => ReadonlyStore<C>;
  readonly applier: Pick<Applier, 'apply' | 'createOnce'>;
  readonly gate: Gate;
  readonly state: S;
  readonly memory: M;
  readonly reporter: OutcomeReporter<T, string>;
  readonly calls: ReconcileCalls;
  readonly asked: AskedNow;
}

/**
 * The {@link Context} of one reconcile. It creates each function only when the reconcile reads it, because most
 * reconciles use few of them.
 */
export class ObjectContext<T extends ReportingObject, R extends string, S, M, X extends Indexed>
  implements Context<T, R, S, M, X>
{
  readonly #options: ObjectContextOptions<T, S, M, X>;
  #ownedChildren: OwnedChildren<T> | undefined;

  constructor(options: ObjectContextOptions<T, S, M, X>) {
    this.#options = options;
  }

  get object(): T {
    return this.#options.run.object;
  }

  get state(): S {
    return this.#options.state;
  }

  get memory(): M {
    return this.#options.memory;
  }

  get gate(): Gate {
    return this.#options.gate;
  }

  get client(): Client {
    return this.#options.run.context.client;
  }

  get signal(): AbortSignal {
    return this.#options.run.context.signal;
  }

  get log(): Logger {
    return this.#options.run.context.log;
  }

  get priorFailures(): FailedReconciles | undefined {
    return this.#options.run.context.priorFailures;
  }

  get get(): Context<T, R, S, M, X>['get'] {
    return this.#options.reads.get;
  }

  get owned(): Context<T, R, S, M, X>['owned'] {
    return this.#options.reads.owned;
  }

  get find(): Context<T, R, S, M, X>['find'] {
    return this.#options.reads.find;
  }

  get apply(): Context<T, R, S, M, X>['apply'] {
    return (kind, child) => this.#make(() => this.#children.apply(kind, child));
  }

  get createOnce(): Context<T, R, S, M, X>['createOnce'] {
    return (kind, child) => this.#make(() => this.#children.createOnce(kind, child));
  }

  get tryApply(): Context<T, R, S, M, X>['tryApply'] {
    return (kind, child) => this.#make(() => this.#children.tryApply(kind, child));
  }

  get tryCreateOnce(): Context<T, R, S, M, X>['tryCreateOnce'] {
    return (kind, child, options) => this.#make(() => this.#children.tryCreateOnce(kind, child, options));
  }

  get applyAll(): Context<T, R, S, M, X>['applyAll'] {
    return (list, options) => this.#make(() => this.#children.applyAll(list, options)) as never;
  }

  get delete(): Context<T, R, S, M, X>['delete'] {
    return (kind, child, options) => this.#make(() => this.#children.delete(kind, child, options));
  }

  get adoptAndRelease(): Context<T, R, S, M, X>['adoptAndRelease'] {
    return (kind, candidates, matches, options) =>
      this.#make(() => this.#children.adoptAndRelease(kind, candidates, matches, options));
  }

  get isCurrent(): Context<T, R, S, M, X>['isCurrent'] {
    return () => this.#make(() => this.#isCurrent());
  }

  get writeStatus(): Context<T, R, S, M, X>['writeStatus'] {
    return (status) => this.#make(() => this.#writeStatus(status));
  }

  get report(): Context<T, R, S, M, X>['report'] {
    const { calls, reporter, run } = this.#options;
    return (outcome: Outcome<string, T>) =>
      this.#make(async () => {
        calls.reported = await reporter.report(run.object, outcome, run.context);
      });
  }

  get event(): Context<T, R, S, M, X>['event'] {
    const { reporter, run } = this.#options;
    return (notice) => reporter.recordEvent(run.object, notice, run.context);
  }

  #make<A>(call: () => Promise<A>): Promise<A> {
    return this.#options.calls.make(call);
  }

  get #children(): OwnedChildren<T> {
    const { run, kind, owned, store, applier, asked, reporter } = this.#options;
    this.#ownedChildren ??= new OwnedChildren<T>({
      kind,
      owner: () => run.object,
      owned,
      store,
      applier,
      client: run.context.client,
      asked,
      hasStatus: () => run.object.status !== undefined,
      hadChildren: () => reporter.hadChildren(run.object),
      isCurrent: () => this.#isCurrent(),
      recordChild: (child, applied) => reporter.recordChild(run.object, child, applied, run.context),
    });
    return this.#ownedChildren;
  }

  #isCurrent(): Promise<boolean> {
    const { run, kind } = this.#options;
    return isCurrent(run.context.client, kind, run.object);
  }

  async #writeStatus(status: DesiredStatus<NonNullable<T['status']>>): Promise<T> {
    const { run, kind } = this.#options;
    try {
      run.object = (await patchStatus(run.context.client, kind, run.object, status)) ?? run.object;
    } catch (error) {
      if (isNotFound(error) && !(await this.#isCurrent())) throw new ReconcileEnd(undefined);
      throw error;
    }
    return run.object;
  }
}
