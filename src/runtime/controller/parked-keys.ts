import { compareResourceVersions } from '../cache/index.ts';

interface ParkedKey {
  readonly key: string;
  readonly resourceVersion: string;
}

/**
 * Keys by the resourceVersion that each of them waits for, the oldest first. Writes are answered in about the order of
 * their versions, so a key's place is at the end or near it; found by halving in any case.
 */
export class ParkedKeys {
  #entries: ParkedKey[] = [];
  /** What is before it has been taken. */
  #first = 0;

  add(key: string, resourceVersion: string): void {
    this.#entries.splice(this.#placeOf(resourceVersion), 0, { key, resourceVersion });
  }

  /** Takes out the first key if what it waits for is reached. */
  take(hasReached: (resourceVersion: string) => boolean): string | undefined {
    const entry = this.#entries[this.#first];
    if (entry === undefined || !hasReached(entry.resourceVersion)) return undefined;
    this.#first += 1;
    // Each entry is moved once at the most for each that was taken.
    if (this.#first * 2 >= this.#entries.length) {
      this.#entries = this.#entries.slice(this.#first);
      this.#first = 0;
    }
    return entry.key;
  }

  #placeOf(resourceVersion: string): number {
    let from = this.#first;
    let to = this.#entries.length;
    if (from < to && !this.#isNewer(to - 1, resourceVersion)) return to;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.#isNewer(middle, resourceVersion)) to = middle;
      else from = middle + 1;
    }
    return from;
  }

  #isNewer(index: number, resourceVersion: string): boolean {
    const entry = this.#entries[index];
    return entry !== undefined && compareResourceVersions(entry.resourceVersion, resourceVersion) > 0;
  }
}
