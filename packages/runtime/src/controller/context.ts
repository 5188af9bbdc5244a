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

/** For each index of a controller, by its name, the type of the objects that the index finds. */
export type Indexed = Readonly<Record<string, KubeObject>>;

/**
 * A child as a kind desires it. The name and the namespace are by default the owner's. The controller reference is
 * added. The child's kind limits the length of `name`: `childName` shortens one.
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

/** Reads the caches of the kinds that a definition names. The caches show the reconcile's own writes. */
export interface Lookup<X extends Indexed> {
  /** The objects that an index of the definition finds under a value, in all namespaces. */
  find<N extends keyof X & string>(index: N, value: string): readonly X[N][];
  /** The keys of the objects whose last reconcile asked for the child of this name, whoever owns the child. */
  ownersAskingFor(kind: Kind, child: ObjectKey): readonly ObjectKey[];
}

/**
 * Reads the caches of the kinds that a definition names, for one object. The caches show the reconcile's own writes.
 */
export interface Reads<X extends Indexed> extends Pick<Lookup<X>, 'find'> {
  /** @param key a name alone means the object's namespace, or a cluster-scoped kind. */
  get<C extends KubeObject>(kind: Kind<C>, key: ObjectKey | string): C | undefined;
  /**
   * The objects of a kind that an owner controls.
   *
   * @param owner default: the object. Pass another owner, such as a child, to get for example the pods of a Job.
   */
  owned<C extends KubeObject>(
    kind: Kind<C>,
    owner?: { readonly metadata: Pick<KubeObject['metadata'], 'uid'> },
  ): readonly C[];
}

/** What one reconcile of an object works with. Its functions may be destructured: `{ apply, get }`. */
export interface Context<T extends ReportingObject, R extends string, S, M, X extends Indexed> extends Reads<X> {
  /** The object after the last write of this reconcile. */
  readonly object: T;
  /** What `setUp` returned. */
  readonly state: S;
  /** The object's memory; see `memory` of the definition. */
  readonly memory: M;
  /** For requests that the functions below do not offer. The caches show its writes. */
  readonly client: Client;
  /**
   * Closed when the process may no longer lead. Call `gate.pass()` before each call to another system. Always open
   * without leader election.
   */
  readonly gate: Gate;
  /** Aborted after `reconcileTimeoutMs`, or after the drain timeout. Pass it to every wait. */
  readonly signal: AbortSignal;
  readonly log: Logger;
  /** How often reconciles of this object have failed in a row before this one. */
  readonly priorFailures: FailedReconciles | undefined;

  /**
   * Applies a child (server-side). Sends nothing if the child is as desired: see `Applier`. Records an Event if it
   * created or changed the child.
   *
   * It creates no child for an object that is gone or has another spec by now. If an earlier reconcile may have created
   * the child, it asks the API server first. That is so once the object has a status.
   *
   * @returns the child.
   * @throws ReconcileEnd, which you must not catch: it ends the reconcile under `NameTaken` or `Replacing`, or without
   *   an outcome if the object is not current. A refusal by the API server, which is reported as `Refused` unless
   *   `failed` decides otherwise.
   */
  apply<C extends KubeObject>(kind: Kind<C>, child: Child<C>): Promise<C>;
  /**
   * Like {@link apply}, for a child that never changes after its creation. An existing child is returned unchanged,
   * even if it was created from an older generation of the object. Records an Event only if it creates the child again.
   */
  createOnce<C extends KubeObject>(kind: Kind<C>, child: Child<C>): Promise<C>;
  /** Like {@link apply}, but returns whether the name is taken or the child is being deleted. */
  tryApply<C extends KubeObject>(kind: Kind<C>, child: Child<C>): Promise<ApplyResult<C>>;
  /**
   * Like {@link createOnce}, but returns whether the name is taken or the child is being deleted, and records no Event.
   */
  tryCreateOnce<C extends KubeObject>(
    kind: Kind<C>,
    child: Child<C>,
    options?: Pick<CreateOptions, 'fieldValidation'>,
  ): Promise<Exclude<ApplyResult<C>, { readonly type: 'applied' }>>;
  /**
   * Applies several children, one after the other. Create them with {@link child}. Attempts each child, then throws the
   * first problem.
   *
   * @param options.prune the list is complete: after all children were applied, delete the object's other children of
   *   the owned kinds with `deletes`.
   * @returns the children, in the order of the list.
   */
  applyAll<const C extends readonly KubeObject[]>(
    children: { readonly [I in keyof C]: DesiredChild<C[I]> },
    options?: { readonly prune?: boolean },
  ): Promise<C>;
  /**
   * Deletes a child that the object controls, by uid. The object is reconciled again when the child is gone.
   *
   * @returns `deleted`: the child no longer exists. `terminating`: the child still exists, for example because of a
   *   finalizer. `gone`: the child did not exist.
   * @throws RangeError for an object that this object does not control.
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
   * Asks the API server whether the object is current: same uid and spec, and not being deleted. If not, the object
   * will be reconciled again. Call this before an irreversible action, such as a deletion that the spec asks for.
   */
  isCurrent(): Promise<boolean>;
  /** Writes status fields now, for what must survive a crash. Call it before an effect on another system. */
  writeStatus(status: DesiredStatus<NonNullable<T['status']>>): Promise<T>;
  /** Reports an outcome now, for example while holding a lock. The reconcile then returns nothing. */
  report(outcome: Outcome<R | StandardReason, T>): Promise<void>;
  /** Records an Event and a log line for an action. Does not wait and never throws. */
  event(notice: Omit<EventNotice, 'action'>): void;
}
