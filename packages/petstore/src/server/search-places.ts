import { TooBusyError } from './errors.ts';

/** A client of the pet store. {@link SearchPlaces} distinguishes clients by name. */
export interface SearchClient {
  /** The client's address. */
  readonly name: string;
  /** Cancels the client's search, even if the client does not read it. */
  cancelSearch(): void;
}

/**
 * Limits how many searches run concurrently. A single client may take all places. If no place is free, the client with
 * the most places loses its oldest search to a client that would still have fewer. So no client can block the others.
 */
export class SearchPlaces {
  readonly #limit: number;
  /** Oldest first. */
  readonly #taken = new Set<SearchClient>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /**
   * Takes a place until the result is disposed of.
   *
   * @throws TooBusyError if no place is free and no client holds at least two more than this one.
   */
  take(client: SearchClient): Disposable {
    if (this.#taken.size >= this.#limit) this.#evictFor(client);
    this.#taken.add(client);
    return { [Symbol.dispose]: () => void this.#taken.delete(client) };
  }

  #evictFor({ name }: SearchClient): void {
    const oldest = new Map<string, SearchClient>();
    const held = new Map<string, number>();
    for (const each of this.#taken) {
      if (!oldest.has(each.name)) oldest.set(each.name, each);
      held.set(each.name, (held.get(each.name) ?? 0) + 1);
    }
    const [largest, most] = [...held].reduce((one, other) => (other[1] > one[1] ? other : one));
    const evicted = oldest.get(largest);
    if (evicted === undefined || most <= (held.get(name) ?? 0) + 1) {
      throw new TooBusyError(`${this.#limit} searches are already in flight`);
    }
    this.#taken.delete(evicted);
    evicted.cancelSearch();
  }
}
