import { Lease } from '../built-in-kinds/built-in-kinds.ts';
import { isForbidden } from '../client/api-error.ts';
import type { Client } from '../client/client.ts';
import { cutText } from '../client/cut-text.ts';
import { listPages } from '../client/list-pages.ts';
import { keyString, type ObjectKey } from '../kind/object.ts';
import type { Logger } from '../shared/logger.ts';
import { pause } from '../shared/pause.ts';
import { ScopeTakenError } from './errors.ts';
import { holderOf, isSameClaim, type LeaseMetadata } from './lease.ts';

/** The option `scope` of leader election. It keeps two operators from working in the same namespaces. */
export interface OperatorScope {
  /** The namespaces that the operator watches. */
  readonly namespaces: readonly string[] | 'all';
  /**
   * Where to look for the Leases of other operators; it needs the permission to list Leases there. Anyone who can write
   * Leases there can block the operator. So an operator in a cluster looks in its own namespace, which its tenants
   * cannot write to. An operator that a person starts looks in all namespaces.
   */
  readonly lookIn: 'ownNamespace' | 'allNamespaces';
}

/** What {@link ScopeCheck} needs. */
export interface ScopeCheckOptions extends OperatorScope {
  readonly client: Pick<Client, 'list'>;
  /** The operator's own Lease, which all its candidates share. */
  readonly lease: Required<ObjectKey>;
  /** The operator's name. Operators of other names are ignored. */
  readonly name: string;
  readonly log: Logger;
}

/** How often to list the Leases of other operators. */
const lookEveryMs = 2000;

const lookTimeoutMs = 5000;

/**
 * The operator starts after this time even if it could not list the Leases. Otherwise a problem with listing would
 * block every operator.
 */
const [maxWaitMs, maxTakeoverMs] = [30_000, 10_000] as const;

/** The longest lease duration that counts. Otherwise anyone who can write a Lease could block the operator forever. */
const maxDurationMs = 300_000;

/** Another operator's Lease, as last observed with a holder. */
interface Claim {
  /** Without labels and annotations, which may be large. */
  readonly lease: Lease;
  readonly conflict: string | undefined;
  /** When this holder or its last renewal was first observed, by `performance.now`. */
  readonly seenAtMs: number;
}

/**
 * Finds other operators that work in the same namespaces. The Lease for which an operator's candidates contend names
 * the namespaces that the operator watches. An operator looks for such Leases before it contends, and again when it
 * holds its own Lease. If two operators start at the same time, at least one finds the other.
 *
 * A Lease counts for its duration after its last observed renewal, even if it was released: the operator may be
 * restarting.
 */
export class ScopeCheck {
  /** Labels and annotations to set on the operator's own Lease. */
  readonly metadata: LeaseMetadata;
  readonly #options: ScopeCheckOptions;
  /** By the key of the Lease. Kept as long as the Lease exists, so that an expired claim does not count again. */
  #claims: ReadonlyMap<string, Claim> = new Map();
  #conflict: string | undefined;
  #mayLook = true;

  constructor(options: ScopeCheckOptions) {
    const { name, namespaces } = options;
    this.#options = options;
    this.metadata = {
      labels: { [labelOf(name)]: '' },
      annotations: { [annotationOf(name)]: JSON.stringify(namespaces) },
    };
  }

  /** Which other operator this one waits for, and where that operator works. Undefined: none. */
  get conflict(): string | undefined {
    return this.#conflict;
  }

  /**
   * Resolves when no other operator works in these namespaces, when no list has succeeded for 30 s, or when the signal
   * is aborted. Logs a conflict.
   */
  async waitUntilFree(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const conflict = await this.#look(AbortSignal.any([signal, AbortSignal.timeout(maxWaitMs)]));
      if (conflict !== undefined && conflict !== this.#conflict) {
        this.#options.log.warn({}, `${conflict}: this operator waits until that one has stopped`);
      }
      this.#conflict = conflict;
      if (conflict === undefined) return;
      await pauseBetweenLooks(signal);
    }
  }

  /**
   * Resolves if no other operator works in these namespaces, if no list has succeeded for 10 s, or if the signal is
   * aborted.
   *
   * @throws ScopeTakenError if another operator works in these namespaces.
   */
  async requireFree(signal: AbortSignal): Promise<void> {
    const conflict = await this.#look(AbortSignal.any([signal, AbortSignal.timeout(maxTakeoverMs)]));
    if (conflict !== undefined) throw new ScopeTakenError(conflict);
  }

  /**
   * Looks until the signal is aborted. With `ownNamespace` this is not necessary: an operator that starts later looks
   * in the same namespace and finds this one.
   *
   * @throws ScopeTakenError as soon as another operator works in these namespaces.
   */
  async watch(signal: AbortSignal): Promise<void> {
    if (this.#options.lookIn === 'ownNamespace') return;
    while (!signal.aborted) {
      await pauseBetweenLooks(signal);
      await this.requireFree(signal);
    }
  }

  /**
   * Retries until the Leases were listed. Returns undefined if there is no conflict, the signal is aborted, or listing
   * is forbidden.
   */
  async #look(signal: AbortSignal): Promise<string | undefined> {
    const { log } = this.#options;
    while (this.#mayLook && !signal.aborted) {
      try {
        return await this.#findConflict(AbortSignal.any([signal, AbortSignal.timeout(lookTimeoutMs)]));
      } catch (error) {
        if (signal.aborted) return undefined;
        if (isForbidden(error)) {
          this.#mayLook = false;
          log.warn(
            { err: error },
            'may not list leases: not looking whether another operator watches the same namespaces',
          );
        } else {
          log.warn({ err: error }, 'the leases of other operators cannot be listed: trying again');
          await pauseBetweenLooks(signal);
        }
      }
    }
    return undefined;
  }

  async #findConflict(signal: AbortSignal): Promise<string | undefined> {
    const { client, lease: own, name, lookIn } = this.#options;
    const place = lookIn === 'ownNamespace' ? { namespace: own.namespace } : {};
    const claims = new Map<string, Claim>();
    for await (const { items } of listPages(client, Lease, { ...place, labelSelector: labelOf(name), signal })) {
      for (const lease of items) {
        const key = keyString(lease.metadata);
        const claim = key === keyString(own) ? undefined : this.#claimOf(lease, this.#claims.get(key));
        if (claim !== undefined) claims.set(key, claim);
      }
    }
    this.#claims = claims;
    const conflicts = [...claims.values()].filter(isActive).flatMap(({ conflict }) => conflict ?? []);
    return conflicts.sort()[0];
  }

  /** The last claim that a holder wrote to the Lease. */
  #claimOf(lease: Lease, last: Claim | undefined): Claim | undefined {
    const isNew = holderOf(lease) !== undefined && (last === undefined || !isSameClaim(last.lease, lease));
    const { labels: _, annotations: __, ...metadata } = lease.metadata;
    return isNew
      ? { lease: { ...lease, metadata }, conflict: this.#conflictWith(lease), seenAtMs: performance.now() }
      : last;
  }

  #conflictWith(lease: Lease): string | undefined {
    const { name, namespaces: own } = this.#options;
    const theirs = parseNamespaces(lease.metadata.annotations?.[annotationOf(name)]);
    const shared = sharedNamespaces(own, theirs);
    if (shared === undefined) return undefined;
    return cutText(`${holderOf(lease)} works in ${shared} (lease ${keyString(lease.metadata)})`);
  }
}

const isActive = ({ lease: { spec }, seenAtMs }: Claim): boolean =>
  performance.now() - seenAtMs < Math.min((spec?.leaseDurationSeconds ?? 0) * 1000, maxDurationMs);

const labelOf = (name: string): string => `${name}/scope`;
const annotationOf = (name: string): string => `${name}/watches`;

/** An annotation that cannot be parsed may mean every namespace. */
function parseNamespaces(text = ''): readonly string[] | 'all' {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && value.every((each): each is string => typeof each === 'string') ? value : 'all';
  } catch {
    return 'all';
  }
}

/** Describes the namespaces that both have. Undefined if there are none. */
function sharedNamespaces(one: OperatorScope['namespaces'], other: OperatorScope['namespaces']): string | undefined {
  if (one === 'all' && other === 'all') return 'all namespaces';
  const [listed, others] = one === 'all' ? [other, undefined] : [one, other === 'all' ? undefined : new Set(other)];
  const shared = [...listed].filter((namespace) => others === undefined || others.has(namespace));
  return shared.length === 0 ? undefined : `namespace ${shared.join(', ')}`;
}

const pauseBetweenLooks = (signal: AbortSignal): Promise<void> => pause(lookEveryMs * (1 + Math.random() / 4), signal);
