import type { Delta, DeltaOrigin } from '../cache/index.ts';
import type { KubeObject } from '../kind/index.ts';
import { changedPaths } from '../observability/field-paths.ts';
import type { DeltaCause } from '../queue/index.ts';

/** How many causes of a kind are kept for reuse. */
const maxCauses = 64;

/** Who wrote an object that a watch has just delivered: its status, or the rest. */
export type WriterOf = (object: KubeObject, part: 'status' | 'main') => string | undefined;

/** The causes of the deltas of one kind. Equal causes are one object, so that thousands of keys share it. */
export class DeltaCauses {
  readonly #kind: string;
  readonly #writerOf: WriterOf;
  readonly #known = new Map<string, DeltaCause>();

  constructor(kind: string, writerOf: WriterOf) {
    this.#kind = kind;
    this.#writerOf = writerOf;
  }

  of(delta: Delta<KubeObject>, origin: DeltaOrigin): DeltaCause {
    if (delta.type !== 'modified') return this.#cause({ change: delta.type, origin, paths: [], by: undefined });
    const paths = changedPaths(delta.object, delta.previous);
    const isStatus = paths.length > 0 && paths.every((path) => path.startsWith('status'));
    return this.#cause({
      change: 'modified',
      origin,
      paths,
      by: this.#writerOf(delta.object, isStatus ? 'status' : 'main'),
    });
  }

  #cause(parts: Omit<DeltaCause, 'type' | 'kind'>): DeltaCause {
    const id = `${parts.change} ${parts.origin} ${parts.by} ${parts.paths.join()}`;
    const known = this.#known.get(id);
    if (known !== undefined) return known;
    const cause: DeltaCause = { type: 'delta', kind: this.#kind, ...parts };
    if (this.#known.size === maxCauses) this.#known.clear();
    this.#known.set(id, cause);
    return cause;
  }
}
