import { randomUUID } from 'node:crypto';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { cutText } from '@echoperator/runtime/client';
import { dayText } from '../wire/calendar-day.ts';
import { openDatabase, openReader, transact } from './database.ts';
import { UnknownPetError } from './errors.ts';
import { type Filter, queryOf } from './filter.ts';
import { type NamedRequest, RequestLog } from './request-log.ts';
import { type PetFields, type PetRow, petOfRow, type StoredPet } from './stored-pet.ts';

/** Options of {@link PetDatabase}. */
export interface PetDatabaseOptions {
  /** The database file. */
  readonly path: string;
  /** How long request ids are remembered, in milliseconds. */
  readonly requestsKeptMs: number;
  /** The current time in milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number;
}

/**
 * The pets, in a SQLite file. When a method returns, its change is on the disk. When a method throws, nothing has
 * changed.
 *
 * A request with an id ({@link NamedRequest}) is executed once, however often it is repeated while the id is
 * remembered.
 */
export class PetDatabase implements Disposable {
  readonly #path: string;
  readonly #now: () => number;
  readonly #database: DatabaseSync;
  readonly #requests: RequestLog;
  readonly #add: StatementSync;
  readonly #update: StatementSync;
  readonly #delete: StatementSync;
  readonly #searches = new Set<DatabaseSync>();

  /** @throws DatabaseError if the file cannot be used. */
  constructor({ path, requestsKeptMs, now = Date.now }: PetDatabaseOptions) {
    this.#path = path;
    this.#now = now;
    this.#database = openDatabase(path);
    this.#requests = new RequestLog(this.#database, requestsKeptMs);
    this.#add = this.#database.prepare('INSERT INTO pets (id, name, type, birthday) VALUES (?, ?, ?, ?)');
    this.#update = this.#database.prepare('UPDATE pets SET name = ?, type = ?, birthday = ? WHERE id = ?');
    this.#delete = this.#database.prepare('DELETE FROM pets WHERE id = ?');
  }

  /** @returns the ids of the new pets, in the order of `pets`. */
  add(pets: readonly PetFields[], request?: NamedRequest): readonly string[] {
    return this.#write(request, () =>
      pets.map(({ name, type, birthday }) => {
        const id = randomUUID();
        this.#add.run(id, name, type, dayText(birthday));
        return id;
      }),
    );
  }

  /** @throws UnknownPetError with the ids that do not exist. */
  update(pets: readonly StoredPet[], request?: NamedRequest): void {
    this.#write(request, () => {
      const unknown = pets.filter(
        ({ id, name, type, birthday }) => this.#update.run(name, type, dayText(birthday), id).changes === 0,
      );
      if (unknown.length > 0) {
        throw new UnknownPetError(cutText(`no pet has the id ${unknown.map(({ id }) => id).join(', ')}`));
      }
      return [];
    });
  }

  /** Ignores ids that do not exist. */
  delete(ids: readonly string[], request?: NamedRequest): void {
    this.#write(request, () => {
      for (const id of ids) this.#delete.run(id);
      return [];
    });
  }

  /**
   * Yields the matching pets of one snapshot, taken at the first `next()`. The search holds a connection until the
   * iteration ends or is abandoned.
   */
  *search(filter: Filter): Generator<StoredPet, void> {
    const reader = openReader(this.#path);
    this.#searches.add(reader);
    try {
      const { sql, parameters } = queryOf(filter);
      for (const row of reader.prepare(sql).iterate(...parameters)) yield petOfRow(row as unknown as PetRow);
    } finally {
      this.#searches.delete(reader);
      if (reader.isOpen) reader.close();
    }
  }

  /** The number of searches in flight. */
  get searches(): number {
    return this.#searches.size;
  }

  /** The number of pets. */
  count(): number {
    return Number(Object.values(this.#database.prepare('SELECT count(*) FROM pets').get() ?? {})[0] ?? 0);
  }

  /** The setting's value; undefined if it was never set. */
  setting(name: string): string | undefined {
    const row = this.#database.prepare('SELECT value FROM settings WHERE name = ?').get(name);
    return row === undefined ? undefined : String(row.value);
  }

  setSetting(name: string, value: string): void {
    this.#database.prepare('INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)').run(name, value);
  }

  /** Ends the searches and closes the file, which also merges the write-ahead log into it. */
  [Symbol.dispose](): void {
    for (const reader of this.#searches) reader.close();
    this.#database.close();
  }

  #write(request: NamedRequest | undefined, work: () => readonly string[]): readonly string[] {
    return transact(this.#database, () =>
      request === undefined ? work() : this.#requests.once(request, this.#now(), work),
    );
  }
}
