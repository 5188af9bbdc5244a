/**
 * What is remembered of a PodSet from one turn to the next. None of it is needed: after a restart the first turn begins
 * without.
 *
 * A request whose answer was lost may be under way still, and be done later than the next look at the cluster. So what
 * was asked for is asked for again before anything else: a second pod of one name is refused, a second deletion of one
 * uid does nothing, where another name or another victim would make it one too many.
 */
export interface Memory {
  /** Names under which pods could not be made, as far as is known. It keeps a refusal, which quotes the name, in the same words too. */
  names: readonly string[];
  /** The uids of pods whose deletion had no answer. */
  leaving: ReadonlySet<string>;
  /** The youngest pod that has ended early, and when it did, on the clock of `performance.now`. */
  ended?: { readonly uid: string; readonly atMs: number } | undefined;
}

/** Of each PodSet. */
export class Memories {
  readonly #memories = new Map<string, Memory>();

  /** @param key `keyString` of the PodSet. */
  of(key: string): Memory {
    const known = this.#memories.get(key);
    if (known !== undefined) return known;
    const memory: Memory = { names: [], leaving: new Set() };
    this.#memories.set(key, memory);
    return memory;
  }

  forget(key: string): void {
    this.#memories.delete(key);
  }
}
