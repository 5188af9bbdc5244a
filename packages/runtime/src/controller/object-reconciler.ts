import type { Applier } from '../apply/applier.ts';
import type { Delta, ReadonlyStore } from '../cache/store.ts';
import { isAlreadyExists, isConflict, isNamespaceTerminating, isRefusal } from '../client/api-error.ts';
import type { Client } from '../client/client.ts';
import { type Gate, GateClosedError } from '../client/gate.ts';
import { type CustomKind, specProblem } from '../kind/define-kind.ts';
import { controllerOf, isControlledBy, type Kind, viewedResource } from '../kind/kind.ts';
import { type KubeObject, keyOf, keyString, type ObjectKey } from '../kind/object.ts';
import type { EventRecorder } from '../observability/event-recorder.ts';
import type { Logger } from '../shared/logger.ts';
import type { Context, Indexed, Lookup, Reads } from './context.ts';
import type { Reconcile } from './controller.ts';
import type { AnyDefinition, Owned } from './definition.ts';
import { addFinalizer, type CleanedUp, removeAfterCleanup, removeFinalizer } from './finalizer.ts';
import { ObjectContext, type Run } from './object-context.ts';
import {
  blockedReasons,
  type Observation,
  type Outcome,
  OutcomeReporter,
  type ReportingObject,
  type StandardReason,
} from './outcome.ts';
import { passes } from './predicate.ts';
import { EndIgnoredError, type Ending, ReconcileCalls } from './reconcile-end.ts';
import { type AskedNow, RequestedChildren } from './requested-children.ts';
import { done, type Result, requeueAfter, TerminalError } from './result.ts';
import { refusedOutcome } from './standard-outcomes.ts';
import { keysBeforeAndAfter, ownerKeys } from './watch.ts';

/** What an {@link ObjectReconciler} needs. */
export interface ReconcilerEnvironment<S> {
  /** Returns the store of a kind that the definition names. */
  readonly store: <C extends KubeObject>(kind: Kind<C>) => ReadonlyStore<C>;
  /** Returns the name under which the stores have an index of the definition. */
  readonly indexName: (index: string) => string;
  readonly applier: Pick<Applier, 'apply' | 'createOnce'>;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly gate: Gate;
  readonly log: Logger;
  /** Returns what `setUp` returned. */
  readonly state: () => S;
  /** Default: the clock. */
  readonly now?: () => Date;
}

/** Reconciles the objects of a {@link Definition}: does everything around the code of a kind. */
export class ObjectReconciler<T extends ReportingObject, R extends string, S, M, X extends Indexed> {
  /** Reads the caches without reference to one object. */
  readonly lookup: Lookup<X>;
  readonly #kind: CustomKind<T>;
  readonly #definition: AnyDefinition<T, R, S, M, X>;
  readonly #environment: ReconcilerEnvironment<S>;
  /** By `viewedResource`. */
  readonly #owned: ReadonlyMap<string, Owned<T, M, KubeObject>>;
  readonly #reporter: OutcomeReporter<T, string>;
  readonly #asked = new RequestedChildren();
  /** By `keyString`. */
  readonly #memories = new Map<string, { readonly uid: string; readonly memory: M }>();

  constructor(kind: CustomKind<T>, definition: AnyDefinition<T, R, S, M, X>, environment: ReconcilerEnvironment<S>) {
    this.#kind = kind;
    this.#definition = definition;
    this.#environment = environment;
    this.#owned = new Map(ownedKinds(definition).map((owned) => [viewedResource(owned.kind), owned]));
    const { events, now } = environment;
    this.#reporter = new OutcomeReporter<T, string>({
      kind,
      reasons: { ...blockedReasons, ...definition.reasons },
      events,
      refused: (object, refusal) => this.#failed(refusal, object) ?? refusedOutcome(refusal),
      observe: (object) => this.#observe(object),
      ...(now !== undefined && { now }),
    });
    this.lookup = {
      find: (index, value) => this.#find(index, value),
      ownersAskingFor: (child, key) => this.#asked.ownersOf(child, key),
    };
  }

  /** Runs one reconcile, from its key to its result. */
  readonly reconcile: Reconcile = async (key, context) => {
    const object = this.#environment.store(this.#kind).get(key);
    if (object === undefined) return this.#forget(key);
    const isBeingDeleted = object.metadata.deletionTimestamp !== undefined;
    // The garbage collector deletes the object's children.
    if (isBeingDeleted && !this.#hasFinalizer(object)) return done;
    const run: Run<T> = {
      object,
      context: {
        ...context,
        written(current: T) {
          run.object = current;
        },
      },
    };
    const work = isBeingDeleted ? () => this.#cleanUp(run) : () => this.#reconcileLive(run);
    return this.#reporter.reconcile(() => run.object, run.context, work);
  };

  async #reconcileLive(run: Run<T>): Promise<Outcome<string, T> | Result | undefined> {
    const problem = specProblem(this.#kind, run.object);
    if (problem !== undefined) return { reason: 'InvalidSpec', message: problem };
    const { finalizer } = this.#definition;
    if (finalizer !== undefined) {
      const current = await this.#withFinalizer(run.object, run.context.client, finalizer);
      if (current === undefined) return undefined;
      run.object = current;
    }
    const ending = await this.#call(run, this.#definition.reconcile);
    return isCleanedUp(ending) ? undefined : ending;
  }

  async #cleanUp(run: Run<T>): Promise<Outcome<string, T> | Result | undefined> {
    const { finalizer } = this.#definition;
    if (finalizer === undefined) return undefined;
    if (this.#needsFinalizer(run.object)) {
      const ending = await this.#call(run, async (object, context) => {
        const outcome = await finalizer.cleanUp(object, context);
        // Without an outcome nothing would explain why the object stays. The compiler rejects this too.
        if (outcome === undefined)
          throw new TerminalError(`cleanUp of ${this.#kind.kind} returned nothing: return cleanedUp, or an outcome`);
        return outcome;
      });
      if (!isCleanedUp(ending)) return ending;
    }
    await removeAfterCleanup(run.context.client, this.#kind, run.object, finalizer.name);
    return undefined;
  }

  /** Runs the kind's own code. */
  async #call(
    run: Run<T>,
    code: (object: T, context: Context<T, R, S, M, X>) => Promise<CleanedUp | Ending<R | StandardReason, T>>,
  ): Promise<Outcome<string, T> | Result | CleanedUp | undefined> {
    const { object, context } = run;
    const calls = new ReconcileCalls();
    const asked = this.#asked.begin(object);
    try {
      const ending = await calls.run(() => code(object, this.#contextOf(run, calls, asked)));
      if (ending === undefined) return calls.reported;
      if ('reason' in ending || 'type' in ending) return ending as Outcome<string, T> | CleanedUp;
      return requeueAfter(ending.requeueAfterMs);
    } catch (error) {
      const outcome = mayBeReported(error) && !context.signal.aborted ? this.#failed(error, run.object) : undefined;
      if (outcome === undefined) throw error;
      return outcome;
    } finally {
      asked.end();
    }
  }

  /** Adds or removes the finalizer as the spec requires. Returns undefined if the object no longer exists. */
  #withFinalizer(object: T, client: Client, finalizer: { readonly name: string }): Promise<T | undefined> {
    return this.#needsFinalizer(object)
      ? addFinalizer(client, this.#kind, object, finalizer.name)
      : removeFinalizer(client, this.#kind, object, finalizer.name);
  }

  #hasFinalizer({ metadata }: T): boolean {
    const { finalizer } = this.#definition;
    return finalizer !== undefined && metadata.finalizers?.includes(finalizer.name) === true;
  }

  /** An object with an invalid spec needs no new finalizer: what its spec requires is unknown. */
  #needsFinalizer(object: T): boolean {
    const isNeeded = this.#definition.finalizer?.isNeeded;
    return isNeeded === undefined || specProblem(this.#kind, object) !== undefined || isNeeded(object);
  }

  #contextOf(run: Run<T>, calls: ReconcileCalls, asked: AskedNow): Context<T, R, S, M, X> {
    const { applier, gate, state, store } = this.#environment;
    return new ObjectContext({
      run,
      kind: this.#kind,
      owned: this.#owned,
      reads: this.#readsOf(() => run.object),
      store,
      applier,
      gate,
      state: state(),
      memory: this.#memoryOf(run.object),
      reporter: this.#reporter,
      calls,
      asked,
    });
  }

  #readsOf(object: () => KubeObject): Reads<X> {
    const { store } = this.#environment;
    return {
      get: (kind, key) => store(kind).get(keyIn(kind, key, object())),
      owned: (kind, owner = object()) =>
        [...store(kind).byOwner(owner.metadata.uid)].filter((child) => controllerOf(child)?.uid === owner.metadata.uid),
      find: (index, value) => this.#find(index, value),
    };
  }

  #find<N extends keyof X & string>(name: N, value: string): readonly X[N][] {
    const index = this.#definition.indexes?.[name];
    if (index === undefined) throw new TypeError(`the definition of ${this.#kind.kind} has no index "${name}"`);
    return [...this.#environment.store(index.kind).byIndex(this.#environment.indexName(name), value)];
  }

  #failed(error: unknown, object: T): Outcome<R | StandardReason, T> | undefined {
    try {
      return this.#definition.failed?.(error, object, {
        ...this.#readsOf(() => object),
        state: this.#environment.state(),
      });
    } catch (defect) {
      throw new AggregateError(
        [defect, error],
        'the function `failed` threw: see its error and the error of the reconcile',
      );
    }
  }

  #observe(object: T): Observation<T> {
    try {
      return (
        this.#definition.observe?.(
          object,
          this.#readsOf(() => object),
        ) ?? {}
      );
    } catch (error) {
      // `observe` also gets objects whose spec is invalid, so it may throw.
      this.#environment.log.error(
        { err: error, object: keyString(object.metadata) },
        'observe threw: the status stays as it is',
      );
      return {};
    }
  }

  #memoryOf({ metadata }: T): M {
    const key = keyString(metadata);
    const known = this.#memories.get(key);
    if (known?.uid === metadata.uid) return known.memory;
    // Without `memory` in the definition, `M` is undefined.
    const memory = this.#definition.memory?.() as M;
    if (this.#definition.memory !== undefined) this.#memories.set(key, { uid: metadata.uid, memory });
    return memory;
  }

  #forget(key: ObjectKey): Result {
    this.#memories.delete(keyString(key));
    this.#asked.forget(key);
    return done;
  }

  /**
   * Records a change of an owned kind.
   *
   * @returns the keys to enqueue: the owner, and the objects that ask for a child of this name if the name becomes
   *   taken or free.
   */
  readonly keysOfChangedChild = (kind: Kind, delta: Delta<KubeObject>): readonly ObjectKey[] => {
    const { object } = delta;
    const owned = this.#owned.get(viewedResource(kind));
    const owners = keysBeforeAndAfter(delta, (child) => ownerKeys(this.#kind, child));
    for (const key of ownerKeys(this.#kind, object)) {
      const owner = this.#environment.store(this.#kind).get(key);
      if (owner === undefined || !isControlledBy(object, owner)) continue;
      if (delta.type === 'deleted') this.#asked.deleted(owner, kind, object);
      owned?.onChange?.(delta, owner, this.#memoryOf(owner));
    }
    const isOwner = new Set(owners.map(keyString));
    const others = changesController(delta)
      ? this.#asked.ownersOf(kind, keyOf(object)).filter((key) => !isOwner.has(keyString(key)))
      : [];
    return passes(owned?.predicate, delta) ? [...owners, ...others] : others;
  };
}

/** Whether the name becomes taken or free for objects that do not control the changed object. */
const changesController = (delta: Delta<KubeObject>): boolean =>
  delta.type !== 'modified' || controllerOf(delta.object)?.uid !== controllerOf(delta.previous)?.uid;

/** The kinds of children, each with its options. */
export const ownedKinds = <T extends ReportingObject, R extends string, S, M, X extends Indexed>({
  owns = [],
}: Pick<AnyDefinition<T, R, S, M, X>, 'owns'>): readonly Owned<T, M, KubeObject>[] =>
  owns.map((owned) => ('plural' in owned ? { kind: owned } : owned));

/** The key of an object of a kind. A name alone means the namespace of `object`. */
export function keyIn({ scope }: Kind, key: ObjectKey | string, { metadata }: KubeObject): ObjectKey {
  if (typeof key !== 'string') return key;
  return scope === 'Cluster' || metadata.namespace === undefined
    ? { name: key }
    : { name: key, namespace: metadata.namespace };
}

const isCleanedUp = (ending: unknown): ending is CleanedUp =>
  typeof ending === 'object' && ending !== null && 'type' in ending && ending.type === 'cleanedUp';

/**
 * Whether `failed` decides about the error. The reporter calls it for a refusal. The other errors mean that the
 * reconcile came too late or is defective.
 */
const mayBeReported = (error: unknown): boolean =>
  !(error instanceof GateClosedError) &&
  !(error instanceof EndIgnoredError) &&
  !isNamespaceTerminating(error) &&
  !isRefusal(error) &&
  !isConflict(error) &&
  !isAlreadyExists(error);
