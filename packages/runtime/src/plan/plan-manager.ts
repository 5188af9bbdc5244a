import { Informer } from '../cache/informer.ts';
import type { IndexFunction } from '../cache/object-index.ts';
import type { ReadonlyStore } from '../cache/store.ts';
import type { ControllerHandle, ControllerOptions } from '../controller/controller.ts';
import type { InformerSource } from '../controller/watch.ts';
import type { Kind } from '../kind/kind.ts';
import type { KubeObject } from '../kind/object.ts';
import { Manager, type ManagerOptions } from '../manager/manager.ts';
import type { PlannedReconcile } from './planned-reconcile.ts';
import { PlannedStore } from './planned-store.ts';

/** Returns the reconcile whose code runs. Undefined: the code belongs to none. */
export type CurrentReconcile = () => PlannedReconcile | undefined;

type InformerArguments<T extends KubeObject> = ConstructorParameters<typeof Informer<T>>[0];

/** An informer whose store is a {@link PlannedStore}. */
class PlannedInformer<T extends KubeObject> extends Informer<T> {
  readonly #view: PlannedStore<T>;
  readonly #indexes = new Map<string, IndexFunction<T>>();

  constructor(options: InformerArguments<T>, current: CurrentReconcile) {
    super(options);
    this.#view = new PlannedStore({
      base: super.store,
      shown: () => current()?.shown(this.kind),
      hasRead: (object) => current()?.hasRead(this.kind, object),
      asStored: (object) => this.asStored(object),
      indexes: this.#indexes,
    });
  }

  override get store(): ReadonlyStore<T> {
    return this.#view;
  }

  override addIndex(name: string, values: IndexFunction<T>): void {
    super.addIndex(name, values);
    this.#indexes.set(name, values);
  }
}

/** A controller whose reconciles are planned. */
export interface PlannedController {
  readonly name: string;
  readonly kind: Kind;
  readonly store: ReadonlyStore<KubeObject>;
  readonly options: Pick<ControllerOptions<KubeObject>, 'reconcile' | 'predicate' | 'setUp' | 'reconcileTimeoutMs'>;
}

/** A manager that fills the caches of controllers and runs none of them. */
export class PlanManager extends Manager {
  readonly controllers: PlannedController[] = [];
  readonly #current: CurrentReconcile;

  constructor(options: ManagerOptions, current: CurrentReconcile) {
    super(options);
    this.#current = current;
  }

  protected override createInformer<T extends KubeObject>(options: InformerArguments<T>): Informer<T> {
    return new PlannedInformer(options, this.#current);
  }

  override controller<T extends KubeObject>(kind: Kind<T>, options: ControllerOptions<T>): ControllerHandle {
    const name = options.name ?? kind.kind.toLowerCase();
    if (this.controllers.some((other) => other.name === name))
      throw new Error(`controller "${name}" already exists: give this one another name`);
    const informers: InformerSource = (other, informerOptions) => this.informer(other, informerOptions);
    const { store } = informers(kind, options.informer);
    // Handlers also keep what a controller knows of its children. No key is enqueued: each object is planned once.
    for (const watch of options.watches ?? []) watch.attach(informers, () => {});
    // The options are only used for objects of this kind.
    const planned = { name, kind, store, options } as unknown as PlannedController;
    this.controllers.push(planned);
    const remove = async (): Promise<void> => {
      const index = this.controllers.indexOf(planned);
      if (index !== -1) this.controllers.splice(index, 1);
    };
    return { name, remove };
  }
}
