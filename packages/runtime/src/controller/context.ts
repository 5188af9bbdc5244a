import type { ApplyResult } from '../apply/applier.ts';
import type { Client, CreateOptions, DeleteOptions } from '../client/client.ts';
import type { Gate } from '../client/gate.ts';
import type { Kind } from '../kind/kind.ts';
import type { KubeObject, Manifest, ObjectKey, ObjectMeta } from '../kind/object.ts';
import type { DesiredStatus } from '../kind/status-patch.ts';
import type { EventNotice } from '../observability/event-recorder.ts';
import type { Logger } from '../shared/logger.ts';
import type { AdoptionOptions, AdoptionResult } from './adoption.ts';
import type { FailedReconciles } from './controller.ts';
import type { Outcome, ReportingObject, StandardReason } from './outcome.ts';

/** The objects that each index of a controller finds, by its name. */
export type Indexed = Readonly<Record<string, KubeObject>>;

/**
 * A child as a kind desires it. The name is by default the owner's, the namespace too, and the controller reference is added. `name` is limited
 * by the child's kind: `childName` shortens one.
 */
export type Child<C extends KubeObject> = Omit<Manifest<C>, 'metadata'> & {
  readonly metadata?: Partial<ObjectMeta>;
};

/** A child with its kind, for {@link Context.applyAll}. Made by {@link child}. */
export interface DesiredChild<C extends KubeObject = KubeObject> {
  readonly kind: Kind<C>;
  readonly manifest: Child<C>;
}

/** Names the kind of a child, for {@link Context.applyAll}. */
export const child = <C extends KubeObject>(kind: Kind<C>, manifest: Child<C>): DesiredChild<C> => ({ kind, manifest });

/** Reads the caches of the kinds that a definition names. They show the reconcile's own writes. */
export interface Lookup<X extends Indexed> {
  /** The objects that an index of the definition finds under a value, in all namespaces. */
  find<N extends keyof X & string>(index: N, value: string): readonly X[N][];
  /** The keys of the objects whose last reconcile asked for the child of this name, whoever owns that. */
  ownersAskingFor(kind: Kind, child: ObjectKey): readonly ObjectKey[];
}

/** Reads the caches of the kinds that a definition names, for one object. They show the reconcile's own writes. */
export interface Reads<X extends Indexed> extends Pick<Lookup<X>, 'find'> {
  /** @param key a name stands for that name in the object's namespace, or of a cluster-scoped kind. */
  get<C extends KubeObject>(kind: Kind<C>, key: ObjectKey | string): C | undefined;
  /**
   * The objects of a kind that the object controls.
   *
   * @param owner another owner, such as a child: the pods of a Job.
   */
  owned<C extends KubeObject>(
    kind: Kind<C>,
    owner?: { readonly metadata: Pick<KubeObject['metadata'], 'uid'> },
  ): readonly C[];
}

/** What one reconcile of an object works with. Its functions may be taken from it: `{ apply, get }`. */
export interface Context<T extends ReportingObject, R extends string, S, M, X extends Indexed> extends Reads<X> {
  /** The object as the last write of this reconcile has left it. */
  readonly object: T;
  /** What `setUp` has returned. */
  readonly state: S;
  /** The object's memory; see `memory` of the definition. */
  readonly memory: M;
  /** For what the functions below cannot do. The caches show its writes. */
  readonly client: Client;
  /** Closed when the process may no longer lead. Each call to another system must pass it. Open without leader election. */
  readonly gate: Gate;
  /** Aborted after `reconcileTimeoutMs`, or after the drain timeout. Pass it to every wait. */
  readonly signal: AbortSignal;
  readonly log: Logger;
  /** The reconciles of this object that have failed in a row before this one. */
  readonly priorFailures: FailedReconciles | undefined;

  /**
   * Applies a child (server-side), which sends nothing if it is as desired: see `Applier`. Records an Event if it created or changed the
   * child.
   *
   * A child is not created for an object that is gone, or has another spec by now: if an earlier reconcile may have created the child, which
   * it may once the object has a status, the API server is asked first.
   *
   * @returns the child.
   * @throws ReconcileEnd, which you must not catch: it ends the reconcile under `NameTaken`, `Replacing`, or without an outcome for an object
   *   that is not current. A refusal by the API server, which is reported as `Refused` unless `failed` says otherwise.
   */
  apply<C extends KubeObject>(kind: Kind<C>, child: Child<C>): Promise<C>;
  /**
   * Like {@link apply}, for a child that never changes after its creation. If the child exists, it is returned as it is, also one that was
   * made from an older generation of the object. Records an Event only if it creates the child again.
   */
  createOnce<C extends KubeObject>(kind: Kind<C>, child: Child<C>): Promise<C>;
  /** Like {@link apply}, but returns whether the name is taken or the child is being deleted. */
  tryApply<C extends KubeObject>(kind: Kind<C>, child: Child<C>): Promise<ApplyResult<C>>;
  /** Like {@link createOnce}, but returns whether the name is taken or the child is being deleted, and records no Event. */
  tryCreateOnce<C extends KubeObject>(
    kind: Kind<C>,
    child: Child<C>,
    options?: Pick<CreateOptions, 'fieldValidation'>,
  ): Promise<Exclude<ApplyResult<C>, { readonly type: 'applied' }>>;
  /**
   * Applies several children, one after the other: {@link child} makes them. Attempts each, then ends with the first problem.
   *
   * @param options.prune deletes, after all of that has succeeded, the object's other children of the owned kinds with `deletes`: the list is
   *   the whole set.
   * @returns the children, in the order of the list.
   */
  applyAll<const C extends readonly KubeObject[]>(
    children: { readonly [I in keyof C]: DesiredChild<C[I]> },
    options?: { readonly prune?: boolean },
  ): Promise<C>;
  /**
   * Deletes a child that the object controls, by uid. The object is reconciled again when the child is gone.
   *
   * @returns `deleted`: it no longer exists; `terminating`: it will not; `gone`: it did not exist.
   * @throws RangeError for an object that it does not control.
   */
  delete<C extends KubeObject>(
    kind: Kind<C>,
    child: C,
    options?: Pick<DeleteOptions, 'propagationPolicy' | 'gracePeriodSeconds' | 'resourceVersion'>,
  ): Promise<'deleted' | 'terminating' | 'gone'>;
  /** Adopts orphans that match, and releases children that do not: see `adoptAndRelease`. */
  adoptAndRelease<C extends KubeObject>(
    kind: Kind<C>,
    candidates: Iterable<C>,
    matches: (child: C) => boolean,
    options?: Pick<AdoptionOptions<T, C>, 'transform'>,
  ): Promise<AdoptionResult<C>>;
  /**
   * Asks the API server whether the object is current: same uid and spec, and not being deleted. Otherwise it will be reconciled again. Ask
   * before what cannot be undone, such as a deletion because of the spec.
   */
  isCurrent(): Promise<boolean>;
  /** Stores now what must survive a crash, before an effect on another system. */
  writeStatus(status: DesiredStatus<NonNullable<T['status']>>): Promise<T>;
  /** Reports an outcome now, for example under a lock. The reconcile then returns nothing. */
  report(outcome: Outcome<R | StandardReason, T>): Promise<void>;
  /** Records an Event and a log line for an action. Does not wait and never throws. */
  event(notice: Omit<EventNotice, 'action'>): void;
}
