import type { Applier } from '../apply/applier.ts';
import { CustomResourceDefinition } from '../built-in-kinds/built-in-kinds.ts';
import type { Informer, InformerOptions } from '../cache/informer.ts';
import type { Delta } from '../cache/store.ts';
import type { Client } from '../client/client.ts';
import type { Gate } from '../client/gate.ts';
import type { CustomKind } from '../kind/define-kind.ts';
import { type Kind, resourceName, viewedResource } from '../kind/kind.ts';
import { type KubeObject, keyOf, keyString, type ObjectKey } from '../kind/object.ts';
import type { EventRecorder } from '../observability/event-recorder.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Logger } from '../shared/logger.ts';
import type { Indexed } from './context.ts';
import type { ControllerHandle, ControllerOptions, Reconcile } from './controller.ts';
import type { AnyDefinition, ControllerSettings, Definition, Index, Owned } from './definition.ts';
import type { CleanedUp } from './finalizer.ts';
import { keyIn, ObjectReconciler, ownedKinds, type ReconcilerEnvironment } from './object-reconciler.ts';
import {
  commonReasons,
  defineReasons,
  type Observation,
  type Reasons,
  type ReportingObject,
  type StandardReason,
  standardReasons,
} from './outcome.ts';
import { allow, mergeRules, type PolicyRule } from './permissions.ts';
import type { Ending } from './reconcile-end.ts';
import { deletion, or } from './standard-predicates.ts';
import { type InformerSource, type WatchFilter, watchDeltas, watches } from './watch.ts';

/** The cache of a kind. All controllers share it. */
export interface CacheOptions {
  readonly kind: Kind;
  readonly options: InformerOptions<KubeObject>;
}

/** Sets the options of the cache of a kind, such as a `transform` that drops what no controller reads. */
export const cache = <C extends KubeObject>(kind: Kind<C>, options: InformerOptions<C>): CacheOptions => ({
  kind,
  // The options are only used for objects of this kind.
  options: options as unknown as InformerOptions<KubeObject>,
});

/** Options of {@link DefinedController.add}. */
export interface AddOptions extends ControllerSettings {
  /** The caches with options other than the default. Create them with {@link cache}. */
  readonly caches?: readonly CacheOptions[] | undefined;
}

/** The parts of an `Operator` that a controller uses. */
export interface ControllerHost {
  /** A `Manager`. Its type is not imported because the manager's folder imports this one. */
  readonly manager: {
    readonly client: Client;
    readonly log: Logger;
    readonly informer: InformerSource;
    readonly controller: <T extends KubeObject>(kind: Kind<T>, options: ControllerOptions<T>) => ControllerHandle;
  };
  readonly applier: Pick<Applier, 'apply' | 'createOnce'>;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly metrics: Pick<Metrics, 'registry'>;
  readonly elector?: { readonly fence: Gate } | undefined;
}

/** A controller as a value, created by {@link defineController}. */
export interface DefinedController {
  readonly kind: CustomKind;
  readonly name: string;
  /** The kinds of `owns`. */
  readonly children: readonly Kind[];
  /** The kind's own reasons and the standard ones that it may report. */
  readonly reasons: Reasons;
  /** The RBAC rules that the controller needs. */
  readonly permissions: readonly PolicyRule[];
  /** The name of its finalizer. */
  readonly finalizer: string | undefined;
  /**
   * Adds the controller to an operator. `runOperator` does this for the controllers in its list.
   *
   * @throws whatever `Manager.controller` and `Manager.informer` throw.
   */
  add(host: ControllerHost, options?: AddOptions): ControllerHandle;
}

/** See {@link reconcilerOf}. */
export interface BareReconciler {
  readonly reconcile: Reconcile;
  /** Records a change of an owned kind. Returns the keys to enqueue. */
  readonly keysOfChangedChild: (kind: Kind, delta: Delta<KubeObject>) => readonly ObjectKey[];
}

/**
 * Returns the reconciler of a controller, without caches, watches and a queue: for tests that fill the stores
 * themselves.
 *
 * @throws TypeError for a controller that {@link defineController} did not create.
 */
export function reconcilerOf(
  controller: DefinedController,
  environment: ReconcilerEnvironment<unknown>,
): BareReconciler {
  if (!(controller instanceof ControllerValue)) throw new TypeError(`${controller.name} is not a defined controller`);
  return controller.reconciler(environment);
}

/** The default of `reconcileTimeoutMs`: longer than any request and its retries. */
const defaultReconcileTimeoutMs = 300_000;

/**
 * Defines a controller for the objects of a kind. The runtime does what every operator would otherwise write by hand.
 *
 * **Guarantees**
 * - `reconcile` gets an object that is not being deleted and has every required field of its spec. Any other spec is
 *   reported as `InvalidSpec`.
 * - What it returns is reported in the status and in an Event: see `OutcomeReporter`.
 * - A taken name, a child that is being deleted, and a refusal by the API server are reported under standard reasons.
 *   The object is reconciled again when the name is free or the child is gone; a refusal is retried.
 * - A child is not created again for an object that is gone: before a repeated creation the API server is asked.
 * - The finalizer is added before `reconcile` and removed after `cleanUp`.
 *
 * **Assumptions**
 * - `reconcile` and `cleanUp` are idempotent, and decide from the object and the caches.
 * - Every kind that they read is named in the definition.
 *
 * @throws RangeError for a reason that is not CamelCase or is a standard one, a finalizer without a domain, and a
 *   cluster-scoped child of a namespaced kind.
 *
 * @example
 * const greetings = defineController(Greeting, {
 *   owns: [ConfigMap],
 *   reasons: { Written: { ready: 'True', event: 'Normal', meaning: 'The ConfigMap has the greeting.' } },
 *   reconcile: async (greeting, { apply }) => {
 *     const { name } = greeting.metadata;
 *     await apply(ConfigMap, { data: { text: `Hello, ${name}!` } });
 *     return { reason: 'Written', message: `ConfigMap ${name} greets` };
 *   },
 * });
 */
export function defineController<
  T extends ReportingObject,
  const R extends string,
  S = undefined,
  M = undefined,
  X extends Indexed = Record<never, never>,
  O extends readonly KubeObject[] | [] = [],
  W extends readonly KubeObject[] | [] = [],
  const E extends Ending<R | StandardReason, T> = undefined,
  const F extends CleanedUp | Extract<Ending<R | StandardReason, T>, object> = CleanedUp,
  const V extends Observation<T> = Record<never, never>,
>(kind: CustomKind<T>, definition: Definition<T, R, S, M, X, O, W, E, F, V>): DefinedController {
  // This cast is safe: the dropped type parameters only narrow what the members return, and the objects' types to those
  // of their kinds.
  return new ControllerValue(kind, definition as unknown as AnyDefinition<T, R, S, M, X>);
}

class ControllerValue<T extends ReportingObject, R extends string, S, M, X extends Indexed>
  implements DefinedController
{
  readonly kind: CustomKind<T>;
  readonly name: string;
  readonly children: readonly Kind[];
  readonly reasons: Reasons;
  readonly permissions: readonly PolicyRule[];
  readonly finalizer: string | undefined;
  readonly #definition: AnyDefinition<T, R, S, M, X>;
  readonly #owned: readonly Owned<T, M, KubeObject>[];

  constructor(kind: CustomKind<T>, definition: AnyDefinition<T, R, S, M, X>) {
    this.kind = kind;
    this.name = definition.name ?? kind.kind.toLowerCase();
    this.finalizer = definition.finalizer?.name;
    this.#definition = definition;
    this.#owned = ownedKinds(definition);
    this.children = this.#owned.map((owned) => owned.kind);
    this.reasons = reasonsOf(definition, this.#owned);
    this.permissions = rulesOf(kind, definition, this.#owned);
    if (this.finalizer !== undefined && !/[./]/.test(this.finalizer))
      throw new RangeError(`the finalizer's name must be qualified, such as example.com/${this.finalizer}`);
    const misplaced = this.#owned.find((owned) => kind.scope === 'Namespaced' && owned.kind.scope === 'Cluster');
    if (misplaced === undefined) return;
    throw new RangeError(
      `${kind.kind} is namespaced and cannot own ${misplaced.kind.kind}, which is cluster-scoped: ` +
        'the garbage collector would delete it',
    );
  }

  reconciler(environment: ReconcilerEnvironment<unknown>): BareReconciler {
    // A test passes the state that `setUp` would return.
    return new ObjectReconciler(this.kind, this.#definition, environment as ReconcilerEnvironment<S>);
  }

  add(host: ControllerHost, options: AddOptions = {}): ControllerHandle {
    const { manager, applier, events } = host;
    const definition = this.#definition;
    const { caches = [] } = options;
    const { namespaces = options.namespaces } = definition;
    const { refersTo = [], indexes = {}, watches: related = [], setUp, sources } = definition;
    const optionsOf = (kind: Kind) => informerOptions(kind, namespaces, caches);
    /** The filter of a watch. The watch must use the informer that the reconciler reads. */
    const filterOf = (kind: Kind) => {
      const informer = optionsOf(kind);
      return informer === undefined ? {} : { informer };
    };
    const informers = new Map(
      kindsOf(this.kind, definition, this.#owned).map((kind) => [
        viewedResource(kind),
        manager.informer(kind, optionsOf(kind)),
      ]),
    );
    const informerOf = <C extends KubeObject>(kind: Kind<C>) => {
      const informer = informers.get(viewedResource(kind));
      if (informer === undefined)
        throw new TypeError(
          `the definition of the controller ${this.name} does not name ${resourceName(kind)}: add it`,
        );
      // The key determines the kind, and so the type.
      return informer as unknown as Informer<C>;
    };
    const own = informerOf(this.kind);
    const indexName = (index: string): string => `${this.name}: ${index}`;
    for (const [name, { kind, values }] of Object.entries<Index<KubeObject>>(indexes))
      informerOf(kind).addIndex(indexName(name), values);
    let state: S;
    const environment: ReconcilerEnvironment<S> = {
      store: (kind) => informerOf(kind).store,
      indexName,
      applier,
      events,
      gate: host.elector?.fence ?? openGate(),
      log: manager.log,
      state: () => state,
    };
    const reconciler = new ObjectReconciler(this.kind, definition, environment);
    const references = refersTo.map(({ kind, keys }, n) => {
      const index = indexName(`refersTo ${n}`);
      own.addIndex(index, (object) => [...keys(object)].map((key) => keyString(keyIn(kind, key, object))));
      return watches(
        kind,
        (named) => [...own.store.byIndex(index, keyString(keyOf(named)))].map(keyOf),
        filterOf(kind),
      );
    });
    return manager.controller(this.kind, {
      reconcileTimeoutMs: defaultReconcileTimeoutMs,
      ...limitsOf(options),
      ...limitsOf(definition),
      name: this.name,
      // The options are only used for objects of this kind.
      ...(filterOf(this.kind) as WatchFilter<T>),
      // A deletion always enqueues the key: a finalizer may wait for it.
      ...(definition.predicate !== undefined && { predicate: or<T>(deletion, definition.predicate) }),
      watches: [
        ...this.#owned.map((owned) =>
          watchDeltas(owned.kind, (delta) => reconciler.keysOfChangedChild(owned.kind, delta), filterOf(owned.kind)),
        ),
        ...references,
        ...related.map(({ kind, keys, predicate }) =>
          watches(kind, (object) => keys(object, reconciler.lookup), {
            ...filterOf(kind),
            ...(predicate && { predicate }),
          }),
        ),
      ],
      ...(setUp !== undefined && {
        setUp: async (signal) => {
          const { store } = own;
          const { client, log } = manager;
          const { registry } = host.metrics;
          state = await setUp({ store, client, log, registry, gate: environment.gate, namespaces, signal });
          return disposableOf(state);
        },
      }),
      ...(sources !== undefined && { sources: () => sources(state) }),
      reconcile: reconciler.reconcile,
    });
  }
}

/** The members of a definition that name kinds, except `owns`. */
interface NamedKinds {
  readonly refersTo?: readonly { readonly kind: Kind }[];
  readonly watches?: readonly { readonly kind: Kind }[];
  readonly indexes?: Readonly<Record<string, { readonly kind: Kind }>>;
}

/** Every kind that the controller caches, its own first. */
function kindsOf(
  kind: Kind,
  { refersTo = [], watches = [], indexes = {} }: NamedKinds,
  owned: readonly { readonly kind: Kind }[],
): readonly Kind[] {
  const all = [kind, ...[...owned, ...refersTo, ...watches, ...Object.values(indexes)].map((each) => each.kind)];
  return [...new Map(all.map((each) => [viewedResource(each), each])).values()];
}

function informerOptions(
  kind: Kind,
  namespaces: readonly string[] | undefined,
  caches: readonly CacheOptions[],
): InformerOptions<KubeObject> | undefined {
  const special = caches.find((each) => viewedResource(each.kind) === viewedResource(kind))?.options;
  const scope = kind.scope === 'Namespaced' && namespaces !== undefined ? { namespaces } : undefined;
  // Undefined: use the options of the controller that first requested the informer.
  return special === undefined ? scope : { ...scope, ...special };
}

/** The settings without undefined members. */
const limitsOf = ({ workers, resyncEveryMs, reconcileTimeoutMs, retries }: ControllerSettings) => ({
  ...(workers !== undefined && { workers }),
  ...(resyncEveryMs !== undefined && { resyncEveryMs }),
  ...(reconcileTimeoutMs !== undefined && { reconcileTimeoutMs }),
  ...(retries !== undefined && { retries }),
});

/** The gate of a process that contends for no Lease. */
const openGate = (): Gate => ({ pass: () => {}, signal: new AbortController().signal });

function disposableOf(state: unknown): AsyncDisposable {
  const dispose = (state as Partial<AsyncDisposable> | null | undefined)?.[Symbol.asyncDispose]?.bind(state);
  return { [Symbol.asyncDispose]: async () => dispose?.() };
}

function reasonsOf(
  { reasons }: { readonly reasons: Reasons },
  owned: readonly Pick<Owned<never, never, KubeObject>, 'write'>[],
): Reasons {
  const taken = Object.keys(reasons).find((reason) => Object.hasOwn(standardReasons, reason));
  if (taken !== undefined)
    throw new RangeError(
      `the reason ${taken} is a standard one: report it without declaring it, or choose a more specific name`,
    );
  const { NameTaken, Replacing, Refused } = standardReasons;
  const writesChildren = owned.some(({ write }) => write !== 'none');
  return { ...defineReasons(reasons), ...(writesChildren && { NameTaken, Replacing }), Refused, ...commonReasons };
}

function rulesOf(
  kind: CustomKind,
  definition: NamedKinds & { readonly permissions?: readonly PolicyRule[]; readonly finalizer?: object },
  owned: readonly Pick<Owned<never, never, KubeObject>, 'kind' | 'write' | 'deletes' | 'adopts'>[],
): readonly PolicyRule[] {
  const isOwner = owned.some(({ write, adopts }) => write !== 'none' || adopts);
  return mergeRules([
    allow(['get', 'list', 'watch', ...(definition.finalizer === undefined ? [] : ['patch'])], kind),
    allow(['patch'], kind, 'status'),
    // At the start, the stored versions are checked.
    ...(kind.versions === undefined
      ? []
      : [{ ...allow(['get'], CustomResourceDefinition), resourceNames: [resourceName(kind)] }]),
    // An owner reference sets `blockOwnerDeletion`. The admission plugin OwnerReferencesPermissionEnforcement requires
    // this permission for that.
    ...(isOwner ? [allow(['update'], kind, 'finalizers')] : []),
    ...owned.map(({ kind: child, write = 'apply', deletes, adopts }) =>
      allow(
        ['list', 'watch', ...writeVerbs[write], ...(deletes ? ['delete'] : []), ...(adopts ? adoptVerbs : [])],
        child,
      ),
    ),
    ...kindsOf(kind, definition, owned).map((each) => allow(['list', 'watch'], each)),
    ...(definition.permissions ?? []),
  ]);
}

/** The owner references of a child are read before they are written. */
const adoptVerbs = ['get', 'patch'] as const;

/**
 * A `get` finds out whether a write without a response succeeded. An apply is a `patch`, and also a `create` if the
 * object does not exist.
 */
const writeVerbs = { apply: ['get', 'create', 'patch'], create: ['get', 'create'], none: [] } as const;
