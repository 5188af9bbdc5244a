import { randomUUID } from 'node:crypto';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { dayText } from '../petstore-wire/index.ts';
import { openDatabase, openReader, transact } from './database.ts';
import { TooBusyError, UnknownPetError } from './errors.ts';
import { type Filter, queryOf } from './filter.ts';
import { type NamedRequest, RequestLog } from './request-log.ts';
import { type PetFields, type PetRow, petOfRow, type StoredPet } from './stored-pet.ts';

/** What a {@link PetDatabase} is told. */
export interface PetDatabaseOptions {
  /** The file. */
  readonly path: string;
  /** For how long named requests are remembered, in milliseconds. */
  readonly requestsKeptMs: number;
  /** Milliseconds since 1970. Default: the clock. */
  readonly now?: () => number;
}

/** Each search under way has a connection of its own. */
const maxSearches = 64;

/**
 * The pets, in a file. What a method has returned is on the disk. A method that throws has changed nothing.
 *
 * Named requests ({@link NamedRequest}) are done once, however often they come within the time for which they are remembered.
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

  /** @throws DatabaseError where the file cannot be used. */
  constructor({ path, requestsKeptMs, now = Date.now }: PetDatabaseOptions) {
    this.#path = path;
    this.#now = now;
    this.#database = openDatabase(path);
    this.#requests = new RequestLog(this.#database, requestsKeptMs);
    this.#add = this.#database.prepare('INSERT INTO pets (id, name, type, birthday) VALUES (?, ?, ?, ?)');
    this.#update = this.#database.prepare('UPDATE pets SET name = ?, type = ?, birthday = ? WHERE id = ?');
    this.#delete = this.#database.prepare('DELETE FROM pets WHERE id = ?');
  }

  /** @returns the new pets' ids, in their order. */
  add(pets: readonly PetFields[], request?: NamedRequest): readonly string[] {
    return this.#write(request, () =>
      pets.map(({ name, type, birthday }) => {
        const id = randomUUID();
        this.#add.run(id, name, type, dayText(birthday));
        return id;
      }),
    );
  }

  /** @throws UnknownPetError with the ids of those that are not there. */
  update(pets: readonly StoredPet[], request?: NamedRequest): void {
    this.#write(request, () => {
      const unknown = pets.filter(
        ({ id, name, type, birthday }) => this.#update.run(name, type, dayText(birthday), id).changes === 0,
      );
      if (unknown.length > 0) throw new UnknownPetError(`no pet has the id ${unknown.map(({ id }) => id).join(', ')}`);
      return [];
    });
  }

  /** Passes over ids that no pet has. */
  delete(ids: readonly string[], request?: NamedRequest): void {
    this.#write(request, () => {
      for (const id of ids) this.#delete.run(id);
      return [];
    });
  }

  /**
   * The pets that fit, as they are when the first is asked for, whatever is written meanwhile. They are read one by one; leave
   * the iteration, or bring it to its end, to let go of its connection.
   *
   * @throws TooBusyError where too many are under way.
   */
  *search(filter: Filter): Generator<StoredPet, void> {
    if (this.#searches.size >= maxSearches) throw new TooBusyError(`${maxSearches} searches are under way already`);
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

  /** How many searches are under way. */
  get searches(): number {
    return this.#searches.size;
  }

  /** How many pets there are. */
  count(): number {
    return Number(Object.values(this.#database.prepare('SELECT count(*) FROM pets').get() ?? {})[0] ?? 0);
  }

  /** What was kept under the name. */
  setting(name: string): string | undefined {
    const row = this.#database.prepare('SELECT value FROM settings WHERE name = ?').get(name);
    return row === undefined ? undefined : String(row.value);
  }

  keepSetting(name: string, value: string): void {
    this.#database.prepare('INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)').run(name, value);
  }

  /** Ends what is under way and closes the file; its write-ahead log is taken into it. */
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
