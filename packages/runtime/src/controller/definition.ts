import type { Delta, ReadonlyStore } from '../cache/store.ts';
import type { Client } from '../client/client.ts';
import type { Gate } from '../client/gate.ts';
import type { Kind } from '../kind/kind.ts';
import type { KubeObject, ObjectKey } from '../kind/object.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { RetryOptions } from '../queue/work-queue.ts';
import type { Logger } from '../shared/logger.ts';
import type { Context, Indexed, Lookup, Reads } from './context.ts';
import type { CleanedUp } from './finalizer.ts';
import type { Observation, Outcome, Reasons, ReportingObject, StandardReason } from './outcome.ts';
import type { PolicyRule } from './permissions.ts';
import type { Predicate } from './predicate.ts';
import type { Ending } from './reconcile-end.ts';
import type { KeySource } from './source.ts';

/** A kind of children, and what the controller does with them. Its permissions follow from this. */
export interface Owned<T extends KubeObject, M, C extends KubeObject> {
  readonly kind: Kind<C>;
  /**
   * `apply`: the controller creates and changes them. `create`: it only creates them, with `createOnce`. `none`: others
   * create them, or they are adopted. Default: `apply`.
   */
  readonly write?: 'apply' | 'create' | 'none';
  /** Whether the controller deletes them, with `delete` or with `applyAll` and `prune`. Default false. */
  readonly deletes?: boolean;
  /** Whether the controller adopts and releases them. Default false. */
  readonly adopts?: boolean;
  /** Which changes of a child enqueue its owner. Default: all. `onChange` receives the other changes too. */
  readonly predicate?: Predicate<C>;
  /**
   * Called with each change of a child before its owner is enqueued. It can store in the owner's memory what the cache
   * does not keep, such as the last state of a deleted child. Must be synchronous and must not throw or write.
   */
  readonly onChange?: (delta: Delta<C>, owner: T, memory: M) => void;
}

/** Objects that the spec names. Creating, changing or deleting such an object enqueues each object that names it. */
export interface Reference<T extends KubeObject> {
  readonly kind: Kind;
  /**
   * Must be pure, and depend on the object alone. A name alone means the object's namespace, or a cluster-scoped kind.
   */
  readonly keys: (object: T) => readonly (ObjectKey | string)[];
}

/** Another kind whose changes matter. */
export interface Related<X extends Indexed, C extends KubeObject> {
  readonly kind: Kind<C>;
  /**
   * The keys to enqueue for a related object. Called with the new and the previous object of a change. Must be
   * synchronous and must not throw or write.
   */
  readonly keys: (related: C, lookup: Lookup<X>) => Iterable<ObjectKey>;
  /** Which changes matter. Default: all. */
  readonly predicate?: Predicate<C>;
}

/** Finds the objects of a kind by the values that a function returns for them. The function must be pure. */
export interface Index<C extends KubeObject> {
  readonly kind: Kind<C>;
  readonly values: (object: C) => readonly string[];
}

/** What `setUp` of a definition receives. */
export interface SetUp<T extends KubeObject> {
  /** The cached objects of the controller's kind. */
  readonly store: ReadonlyStore<T>;
  readonly client: Client;
  readonly log: Logger;
  /** Register the controller's own metrics here. */
  readonly registry: Metrics['registry'];
  /** See `gate` of the context. */
  readonly gate: Gate;
  /** The namespaces that the controller is limited to. Undefined: all. */
  readonly namespaces: readonly string[] | undefined;
  /** Aborted after the drain timeout. */
  readonly signal: AbortSignal;
}

/** How a controller works. Settings of a definition override those of its operator. */
export interface ControllerSettings {
  /** The namespaces that the controller is limited to. Cluster-scoped kinds are not limited. Default: all. */
  readonly namespaces?: readonly string[] | undefined;
  /** How many reconciles run concurrently. Default 4. */
  readonly workers?: number;
  /** See `ControllerOptions`. Default: never. */
  readonly resyncEveryMs?: number;
  /** How long a reconcile may take, in milliseconds. See `ControllerOptions`. Default 300,000. */
  readonly reconcileTimeoutMs?: number;
  /** When a failed reconcile is retried. */
  readonly retries?: RetryOptions;
}

/** The finalizer of a {@link Definition}. */
export interface FinalizerDefinition<T extends ReportingObject, R extends string, S, M, X extends Indexed, F> {
  /** A qualified name that nobody else uses: `example.com/database`. */
  readonly name: string;
  /** Whether the object needs the finalizer. Not called for an object with an invalid spec. Default: yes. */
  readonly isNeeded?: (object: T) => boolean;
  /**
   * Undoes what `reconcile` did. The finalizer is removed only if this returns `cleanedUp`. Any other outcome is
   * reported like that of a reconcile. It must return one of them: otherwise nothing would explain why the object
   * stays. Must be idempotent. The spec may be invalid.
   */
  readonly cleanUp: (object: T, context: Context<T, R, S, M, X>) => Promise<F & OnlyMembers<F, T>>;
}

/** Rejects members that an outcome, or the status of `T`, does not have: the type of a returned object is inferred. */
export type OnlyMembers<E, T extends ReportingObject> = (E extends { readonly reason: string }
  ? { readonly [K in Exclude<keyof E, keyof Outcome>]?: never }
  : unknown) &
  (E extends { readonly status?: infer U }
    ? { readonly status?: { readonly [K in Exclude<keyof U, keyof NonNullable<T['status']>>]?: never } | undefined }
    : unknown);

/**
 * The definition from which {@link defineController} creates a controller. Declare `memory`, `setUp` and `indexes`
 * before the members that use them, because their types are inferred in this order.
 */
export interface Definition<
  T extends ReportingObject,
  R extends string,
  S,
  M,
  X extends Indexed,
  O extends readonly KubeObject[],
  W extends readonly KubeObject[],
  E,
  F,
  V,
> extends ControllerSettings {
  /** The name in logs and metrics. Default: the kind's name in lower case. */
  readonly name?: string;
  /** The kind's own reasons. The controller may report the standard reasons too. */
  readonly reasons: Reasons<R>;
  /**
   * Creates an object's memory, which lasts between its reconciles until the object is gone or the process ends. A
   * reconcile may change the memory, and must be correct without it.
   */
  readonly memory?: () => M;
  /**
   * Called in the leader when the controller starts to work, after the caches have synced: import drivers and open
   * connections here. The result is the `state` of each reconcile. If it has `Symbol.asyncDispose`, it is disposed
   * after the last reconcile. If `setUp` throws, the operator ends.
   */
  readonly setUp?: (operator: SetUp<T>) => S | Promise<S>;
  /** Sources of keys other than watches; see {@link KeySource}. */
  readonly sources?: (state: S) => readonly KeySource[];
  /**
   * Kinds of children. A change of a child enqueues its owner. So does a change of another object that has the name of
   * a child.
   */
  readonly owns?: { readonly [I in keyof O]: Kind<O[I]> | Owned<T, M, O[I]> };
  /** The objects that the spec names. */
  readonly refersTo?: readonly Reference<T>[];
  readonly indexes?: { readonly [N in keyof X]: Index<X[N]> };
  /** Other kinds whose changes matter. */
  readonly watches?: { readonly [I in keyof W]: Related<X, W[I]> };
  /** RBAC rules for what the controller does through `client`. Default: none. */
  readonly permissions?: readonly PolicyRule[];
  /**
   * Which changes of an object of the kind enqueue it. A deletion always does. Default: all. A change that the
   * predicate rejects is not corrected. No predicate is needed for the controller's own writes: see
   * `ControllerOptions`.
   */
  readonly predicate?: Predicate<T>;
  /**
   * The status and conditions for an outcome that has none, for example under a standard reason. The object's spec may
   * lack a required field. Must not write.
   */
  readonly observe?: (object: T, reads: Reads<X>) => V;
  /**
   * Makes the world match the object. The object is not being deleted and has every required field. Must be level-based
   * and idempotent.
   */
  readonly reconcile: (object: T, context: Context<T, NoInfer<R>, S, M, X>) => Promise<E & OnlyMembers<E, T>>;
  /**
   * The outcome for an error that a reconcile threw. Undefined: a refusal is reported as `Refused`, and any other error
   * is logged and retried. A refusal is retried in any case. Not called for a Conflict, an AlreadyExists or a
   * terminating namespace, while the process may not write, and after `signal` was aborted.
   */
  readonly failed?: (
    error: unknown,
    object: T,
    context: Reads<X> & Pick<Context<T, R, S, M, X>, 'state'>,
  ) => Outcome<NoInfer<R> | StandardReason, T> | undefined;
  /**
   * Keeps a deleted object until its external resources are cleaned up. The runtime adds and removes the finalizer: see
   * {@link finalizer}.
   */
  readonly finalizer?: FinalizerDefinition<T, NoInfer<R>, S, M, X, F>;
}

/** Any definition for objects of a type. */
export type AnyDefinition<T extends ReportingObject, R extends string, S, M, X extends Indexed> = Definition<
  T,
  R,
  S,
  M,
  X,
  readonly KubeObject[],
  readonly KubeObject[],
  Ending<R | StandardReason, T>,
  CleanedUp | Ending<R | StandardReason, T>,
  Observation<T>
>;
