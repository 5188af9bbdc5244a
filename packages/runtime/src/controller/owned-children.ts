import type { Applier, ApplyResult } from '../apply/applier.ts';
import type { ReadonlyStore } from '../cache/store.ts';
import { isConflict, isNotFound, isRefusal } from '../client/api-error.ts';
import type { Client, CreateOptions, DeleteOptions } from '../client/client.ts';
import { controllerReference, isControlledBy, type Kind, viewedResource } from '../kind/kind.ts';
import { type KubeObject, keyOf, type Manifest } from '../kind/object.ts';
import { type AdoptionOptions, type AdoptionResult, adoptAndRelease } from './adoption.ts';
import type { Child, DesiredChild } from './context.ts';
import type { Owned } from './definition.ts';
import type { ReportingObject } from './outcome.ts';
import { ReconcileEnd } from './reconcile-end.ts';
import type { AskedNow } from './requested-children.ts';
import { nameTakenOutcome, replacingOutcome } from './standard-outcomes.ts';

/** A kind of children, without their type. */
export type AnyOwned = Pick<Owned<never, never, KubeObject>, 'kind' | 'write' | 'deletes' | 'adopts'>;

/** What {@link OwnedChildren} needs. */
export interface OwnedChildrenOptions<T extends ReportingObject> {
  readonly kind: Kind<T>;
  /** The owner after the last write of the reconcile. */
  readonly owner: () => T;
  /** By `viewedResource`. */
  readonly owned: ReadonlyMap<string, AnyOwned>;
  readonly store: <C extends KubeObject>(kind: Kind<C>) => ReadonlyStore<C>;
  readonly applier: Pick<Applier, 'apply' | 'createOnce'>;
  readonly client: Client;
  readonly asked: AskedNow;
  /** Whether the owner has a status, so that an earlier reconcile may have created children. */
  readonly hasStatus: () => boolean;
  /** Whether the children existed under this spec, according to the owner's status. */
  readonly hadChildren: () => boolean;
  readonly isCurrent: () => Promise<boolean>;
  readonly recordChild: (kind: Kind, applied: ApplyResult<KubeObject>) => void;
}

/** The children of one object, as its reconcile reads and writes them; see {@link Context}. */
export class OwnedChildren<T extends ReportingObject> {
  readonly #options: OwnedChildrenOptions<T>;
  /** The request that asks whether the owner is current, while it is in flight. */
  #currentRequest: Promise<boolean> | undefined;

  constructor(options: OwnedChildrenOptions<T>) {
    this.#options = options;
  }

  async tryApply<C extends KubeObject>(kind: Kind<C>, child: Child<C>): Promise<ApplyResult<C>> {
    const { applier, client, store, recordChild } = this.#options;
    const { write = 'apply' } = this.#owned(kind);
    if (write !== 'apply') throw notDeclared(kind, "write: 'apply'");
    const manifest = await this.#prepareManifest(kind, child);
    const applied = await applier.apply(kind, manifest, { client, store: store(kind) });
    recordChild(kind, applied);
    return applied;
  }

  async apply<C extends KubeObject>(kind: Kind<C>, child: Child<C>): Promise<C> {
    return this.#objectOf(kind, await this.tryApply(kind, child));
  }

  async tryCreateOnce<C extends KubeObject>(
    kind: Kind<C>,
    child: Child<C>,
    { fieldValidation }: Pick<CreateOptions, 'fieldValidation'> = {},
  ): Promise<Exclude<ApplyResult<C>, { readonly type: 'applied' }>> {
    const { applier, client, store } = this.#options;
    if (this.#owned(kind).write === 'none') throw notDeclared(kind, "write: 'create'");
    const manifest = await this.#prepareManifest(kind, child);
    const validation = fieldValidation === undefined ? {} : { fieldValidation };
    return applier.createOnce(kind, manifest, { client, store: store(kind), ...validation });
  }

  async createOnce<C extends KubeObject>(kind: Kind<C>, child: Child<C>): Promise<C> {
    const created = await this.tryCreateOnce(kind, child);
    // Recording each first creation would double the writes of a kind whose reason already reports it.
    if (this.#options.hadChildren()) this.#options.recordChild(kind, created);
    return this.#objectOf(kind, created);
  }

  async applyAll(
    children: readonly DesiredChild[],
    { prune = false }: { readonly prune?: boolean } = {},
  ): Promise<readonly KubeObject[]> {
    if (prune && this.#prunable.length === 0)
      throw new TypeError('applyAll with prune: no kind among `owns` has `deletes: true`');
    const applied: KubeObject[] = [];
    const problems: unknown[] = [];
    for (const { kind, manifest } of children) {
      try {
        applied.push(await this.apply(kind, manifest));
      } catch (error) {
        // The object is not current.
        if (error instanceof ReconcileEnd && error.outcome === undefined) throw error;
        problems.push(error);
      }
    }
    if (problems.length > 0) throw mostUrgent(problems);
    if (prune) await this.#prune(applied);
    return applied;
  }

  async delete<C extends KubeObject>(
    kind: Kind<C>,
    child: C,
    options: Pick<DeleteOptions, 'propagationPolicy' | 'gracePeriodSeconds' | 'resourceVersion'> = {},
  ): Promise<'deleted' | 'terminating' | 'gone'> {
    if (this.#owned(kind).deletes !== true) throw notDeclared(kind, 'deletes: true');
    const { client, owner } = this.#options;
    const { uid, name, deletionTimestamp } = child.metadata;
    if (!isControlledBy(child, owner()))
      throw new RangeError(`${kind.kind} ${name} is not a child of ${owner().metadata.name}: it is not deleted`);
    if (deletionTimestamp !== undefined) return 'terminating';
    try {
      return (await client.delete(kind, keyOf(child), { ...options, uid })) === undefined ? 'deleted' : 'terminating';
    } catch (error) {
      const isOther = options.resourceVersion === undefined && isConflict(error);
      if (isNotFound(error) || isOther) return 'gone';
      throw error;
    }
  }

  async adoptAndRelease<C extends KubeObject>(
    kind: Kind<C>,
    candidates: Iterable<C>,
    matches: (child: C) => boolean,
    { transform }: Pick<AdoptionOptions<T, C>, 'transform'> = {},
  ): Promise<AdoptionResult<C>> {
    if (this.#owned(kind).adopts !== true) throw notDeclared(kind, 'adopts: true');
    const { client, kind: ownerKind, owner } = this.#options;
    return adoptAndRelease({
      client,
      ownerKind,
      owner: owner(),
      childKind: kind,
      candidates,
      matches,
      ...(transform !== undefined && { transform }),
    });
  }

  #owned(kind: Kind): AnyOwned {
    const owned = this.#options.owned.get(viewedResource(kind));
    if (owned === undefined) throw new TypeError(`${kind.kind} is not among \`owns\` of the definition: add it`);
    return owned;
  }

  get #prunable(): readonly AnyOwned[] {
    return [...this.#options.owned.values()].filter(({ deletes }) => deletes);
  }

  /** Builds the manifest of a child, and registers its name as asked for. */
  async #prepareManifest<C extends KubeObject>(kind: Kind<C>, child: Child<C>): Promise<Manifest<C>> {
    const { kind: ownerKind, owner, store, asked, hasStatus } = this.#options;
    const manifest = childManifest({ kind: ownerKind, object: owner() }, kind, child);
    const key = keyOf(manifest);
    asked.ask(kind, key);
    // The garbage collector deletes the children of an object that is gone. While the object's watch lags, each child
    // would be created again.
    const repeats = store(kind).get(key) === undefined && (asked.wasDeleted(kind, key) || hasStatus());
    if (repeats && !(await this.#isCurrent())) throw new ReconcileEnd(undefined);
    return manifest;
  }

  /** Children that are created at the same time share one request. */
  #isCurrent(): Promise<boolean> {
    this.#currentRequest ??= this.#options.isCurrent().finally(() => {
      this.#currentRequest = undefined;
    });
    return this.#currentRequest;
  }

  #objectOf<C extends KubeObject>(kind: Kind<C>, applied: ApplyResult<C>): C {
    const { kind: ownerKind, owner } = this.#options;
    if (applied.type === 'nameTaken')
      throw new ReconcileEnd(nameTakenOutcome({ kind: ownerKind, object: owner() }, kind, applied.holder));
    if (applied.type === 'terminating') throw new ReconcileEnd(replacingOutcome(kind, applied.object));
    return applied.object;
  }

  /** Deletes every other child of the kinds that may be deleted. */
  async #prune(kept: readonly KubeObject[]): Promise<void> {
    const { owner, store, isCurrent } = this.#options;
    const keptUids = new Set(kept.map(({ metadata }) => metadata.uid));
    const surplus = this.#prunable.flatMap(({ kind }) =>
      [...store(kind).byOwner(owner().metadata.uid)]
        .filter((child) => isControlledBy(child, owner()) && child.metadata.deletionTimestamp === undefined)
        .filter(({ metadata }) => !keptUids.has(metadata.uid))
        .map((child) => ({ kind, child })),
    );
    if (surplus.length === 0) return;
    // Deleting is irreversible, and the current spec may ask for these children.
    if (!(await isCurrent())) throw new ReconcileEnd(undefined);
    for (const { kind, child } of surplus) await this.delete(kind, child);
  }
}

/**
 * The manifest of a child, with its name, its namespace and the controller reference.
 *
 * @throws RangeError for a child in another namespace than its owner.
 */
export function childManifest<C extends KubeObject>(
  owner: { readonly kind: Kind; readonly object: KubeObject },
  kind: Kind<C>,
  child: Child<C>,
): Manifest<C> {
  const { name, namespace } = owner.object.metadata;
  const place = kind.scope === 'Namespaced' && namespace !== undefined ? { name, namespace } : { name };
  const references = [...(child.metadata?.ownerReferences ?? []), controllerReference(owner.kind, owner.object)];
  const metadata = { ...place, ...child.metadata, ownerReferences: references };
  if (namespace !== undefined && metadata.namespace !== namespace) {
    throw new RangeError(
      `${kind.kind} ${metadata.name} would be in ${metadata.namespace ?? 'no namespace'}, ` +
        `and its owner is in ${namespace}: the garbage collector would delete it`,
    );
  }
  // The other members are the manifest's.
  return { ...child, metadata } as unknown as Manifest<C>;
}

const notDeclared = ({ kind }: Kind, option: string): TypeError =>
  new TypeError(`${kind} has no \`${option}\` in \`owns\` of the definition: add it, which adds the permission`);

/**
 * Prefers an error that only the log reports, because nothing else would show it. Then a refusal, because it is
 * retried.
 */
function mostUrgent(problems: readonly unknown[]): unknown {
  const [first] = problems;
  const isReported = (problem: unknown): boolean => problem instanceof ReconcileEnd || isRefusal(problem);
  const failure = problems.find((problem) => !isReported(problem));
  if (failure !== undefined) return failure;
  const refusal = problems.find(isRefusal);
  if (!(first instanceof ReconcileEnd) || first.outcome === undefined || refusal === undefined) return first;
  return new ReconcileEnd({ ...first.outcome, error: refusal });
}
