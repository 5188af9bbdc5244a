import type { KubeObject } from '../kind/index.ts';

/**
 * Maps an object to the values under which an index finds it. It must be pure: called again when the object goes, it must
 * say the same.
 */
export type IndexFunction<T extends KubeObject> = (object: T) => readonly string[];

/** Finds objects by the values that a function gives them. An object for which the function throws has no values. */
export class ObjectIndex<T extends KubeObject> {
  readonly #values: IndexFunction<T>;
  readonly #failed: (error: unknown, object: T) => void;
  /** A value that one object has, as most have, is spared a set: that of 10,000 objects would take 2 MB. */
  readonly #found = new Map<string, T | Set<T>>();

  /** @param failed is told of each object for which `values` throws. */
  constructor(values: IndexFunction<T>, failed: (error: unknown, object: T) => void) {
    this.#values = values;
    this.#failed = failed;
  }

  /**
   * The objects as they are now. A set that is gone through while it changes would give each changed object again: a
   * loop that writes to what it finds, and waits, would have no end.
   */
  find(value: string): Iterable<T> {
    const found = this.#found.get(value);
    if (found === undefined) return [];
    return found instanceof Set ? [...found] : [found];
  }

  add(object: T): void {
    for (const value of this.#valuesOf(object) ?? []) {
      const found = this.#found.get(value);
      if (found === undefined || found === object) this.#found.set(value, object);
      else if (found instanceof Set) found.add(object);
      else this.#found.set(value, new Set([found, object]));
    }
  }

  remove(object: T): void {
    // A function that threw only now may have given values before: look everywhere, rather than keep what is gone.
    for (const value of this.#valuesOf(object) ?? [...this.#found.keys()]) this.#removeFrom(value, object);
  }

  #removeFrom(value: string, object: T): void {
    const found = this.#found.get(value);
    if (found === object) {
      this.#found.delete(value);
    } else if (found instanceof Set) {
      found.delete(object);
      if (found.size === 0) this.#found.delete(value);
    }
  }

  #valuesOf(object: T): readonly string[] | undefined {
    try {
      return this.#values(object);
    } catch (error) {
      this.#failed(error, object);
      return undefined;
    }
  }
}
