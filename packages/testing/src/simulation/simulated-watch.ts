import type { Kind } from '@echoperator/runtime';
import { apiVersionOf } from '@echoperator/runtime/internal';
import type { ChangeLog } from './change-log.ts';
import type { ObjectFilter } from './resource-request.ts';
import type { StoredObject } from './strategy.ts';

/** An event of a watch. The API server sends each as a line. */
export type SimulatedWatchEvent =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: object }
  | { readonly type: 'BOOKMARK'; readonly object: object }
  | { readonly type: 'ERROR'; readonly object: object };

/** A watch at the simulated API server: a position in the log. It delivers an event only on request. */
export class SimulatedWatch {
  /** After this many seconds the server ends the watch. */
  readonly timeoutSeconds: number;
  readonly kind: Kind;
  readonly #log: ChangeLog;
  readonly #filter: ObjectFilter;
  readonly #view: (object: StoredObject) => object;
  /** Everything up to this revision has been delivered. */
  #revision: number;
  #initial: SimulatedWatchEvent[] = [];

  constructor(
    log: ChangeLog,
    kind: Kind,
    options: {
      readonly filter: ObjectFilter;
      readonly view: (object: StoredObject) => object;
      readonly timeoutSeconds: number;
      readonly revision: number;
    },
  ) {
    this.kind = kind;
    this.timeoutSeconds = options.timeoutSeconds;
    this.#log = log;
    this.#filter = options.filter;
    this.#view = options.view;
    this.#revision = options.revision;
  }

  /** Begins with the current objects and a bookmark (KEP-3157). */
  startWithList(): void {
    const objects = this.#log.listAt(this.kind, this.#revision).filter(this.#filter);
    const annotations = { 'k8s.io/initial-events-end': 'true' };
    this.#initial = [
      ...objects.map((object) => ({ type: 'ADDED' as const, object: this.#view(object) })),
      this.#bookmark(annotations),
    ];
  }

  get hasNext(): boolean {
    return this.#initial.length > 0 || this.#isExpired || this.#nextChange() !== undefined;
  }

  /** Returns a bookmark: everything up to now has been delivered. Call it only if there is no next event. */
  bookmark(): SimulatedWatchEvent {
    this.#revision = this.#log.revision;
    return this.#bookmark({});
  }

  /** Returns the next event; undefined if there is none. */
  next(): SimulatedWatchEvent | undefined {
    const initial = this.#initial.shift();
    if (initial !== undefined) return initial;
    if (this.#isExpired) return { type: 'ERROR', object: this.#expired() };
    const next = this.#nextChange();
    if (next !== undefined) this.#revision = next.revision;
    return next?.event;
  }

  /** Whether the server has forgotten changes that this watch has not delivered. */
  get #isExpired(): boolean {
    return this.#revision < this.#log.compactedRevision && this.#log.next(this.kind, this.#revision) !== undefined;
  }

  #nextChange(): { readonly revision: number; readonly event: SimulatedWatchEvent } | undefined {
    for (let revision = this.#revision; ; ) {
      const change = this.#log.next(this.kind, revision);
      if (change === undefined) return undefined;
      revision = change.revision;
      const { before, object } = change;
      const was = before !== undefined && this.#filter(before);
      const is = change.type !== 'DELETED' && this.#filter(object);
      if (was && is) return { revision, event: { type: 'MODIFIED', object: this.#view(object) } };
      if (is) return { revision, event: { type: 'ADDED', object: this.#view(object) } };
      if (!was) continue;
      // The object has left the selection: deliver its last state in the selection, with the version of the change.
      const { resourceVersion } = object.metadata;
      const last =
        change.type === 'DELETED' ? object : { ...before, metadata: { ...before.metadata, resourceVersion } };
      return { revision, event: { type: 'DELETED', object: this.#view(last as StoredObject) } };
    }
  }

  #bookmark(annotations: object): SimulatedWatchEvent {
    const metadata = { resourceVersion: String(this.#revision), annotations };
    return { type: 'BOOKMARK', object: { kind: this.kind.kind, apiVersion: apiVersionOf(this.kind), metadata } };
  }

  #expired(): object {
    const message = `too old resource version: ${this.#revision} (${this.#log.compactedRevision})`;
    return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, reason: 'Expired', code: 410 };
  }
}
