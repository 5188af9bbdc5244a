import { join } from 'node:path';
import type { Client } from '@echoperator/runtime';
import { Client as PostgresClient } from 'pg';
import { RemotePets, type ShownPet } from '../../../packages/petstore/src/server/remote-pets.ts';
import { Pet } from '../../../src/kinds/pet/kind.ts';
import { controllerNames } from '../../../src/kinds.ts';
import { PetStoreProcess } from '../../../testkit/pet-store-process.ts';
import { PostgresServer } from '../../../testkit/postgres-server.ts';
import { bundlePrograms } from '../../../testkit/shipped-program.ts';
import type { External } from '../../plans/external.ts';
import { literal } from './postgres-world.ts';

const deleteFrom = (table: string): string => `DELETE FROM ${table}`;

const tables = ['students', 'teachers'] as const;

/** A database with tables, and a pet store. */
export class ExternalPrograms implements AsyncDisposable {
  /** The operator's settings. */
  readonly settings: Readonly<Record<string, string>>;
  readonly #resources: AsyncDisposableStack;

  private constructor(settings: Readonly<Record<string, string>>, resources: AsyncDisposableStack) {
    this.settings = settings;
    this.#resources = resources;
  }

  static async start(folder: string): Promise<ExternalPrograms> {
    await using resources = new AsyncDisposableStack();
    const database = resources.use(await PostgresServer.start());
    await database.query(`CREATE ROLE writer LOGIN CREATEROLE PASSWORD 'of the writer'`);
    for (const table of tables) {
      await database.query(`CREATE TABLE ${table} (id text PRIMARY KEY, name text, age integer, country text)`);
      await database.query(`GRANT SELECT, INSERT, UPDATE, DELETE ON ${table} TO PUBLIC`);
    }
    const store = await PetStoreProcess.start({}, folder, await bundlePrograms(join(folder, 'programs')));
    resources.defer(async () => {
      await store.stop();
    });
    const settings = {
      CONTROLLERS: controllerNames.join(','),
      PETSTORE_ADDRESS: store.address,
      PSQL_HOST: database.host,
      PSQL_PORT: String(database.port),
      PSQL_USER: 'writer',
      PSQL_PASSWORD: 'of the writer',
      PSQL_DBNAME: 'postgres',
      PSQL_SSLMODE: 'disable',
    };
    return new ExternalPrograms(settings, resources.move());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }
}

/** The contents of {@link ExternalPrograms}, for {@link mutatedSubjects} and {@link externalScenariosOn}. */
export class ExternalSystems implements External, Disposable {
  readonly settings: Readonly<Record<string, string>>;
  readonly #client: Client;
  readonly #store: RemotePets;
  /** The ids that a namespace's Pets have had. */
  readonly #ids = new Map<string, Set<string>>();
  /** The database users by namespace. */
  readonly #users = new Map<string, Promise<string>>();

  /** @param settings of {@link ExternalPrograms} */
  constructor(client: Client, settings: Readonly<Record<string, string>>) {
    this.settings = settings;
    this.#client = client;
    this.#store = new RemotePets({ address: settings.PETSTORE_ADDRESS ?? '', tls: undefined, timeoutMs: 10_000 });
  }

  async rows(namespace: string): Promise<readonly unknown[]> {
    const found = tables.map(async (table) => {
      const rows = await this.#query(`SELECT * FROM ${table} WHERE id LIKE ${literal(`${namespace}/%`)}`);
      return rows.map((row) => ({ table, ...row, id: String(row.id).replace(namespace, '<namespace>') }));
    });
    return (await Promise.all(found)).flat();
  }

  /**
   * Returns the database user of the operators of a namespace. If several namespaces had the same one, their operators
   * would take each other for a former leader, and end the statements that it may have left.
   */
  databaseUser(namespace: string): Promise<string> {
    const create = async (): Promise<string> => {
      await this.#query(`CREATE ROLE "${namespace}" LOGIN PASSWORD ${literal(this.settings.PSQL_PASSWORD ?? '')}`);
      return namespace;
    };
    const user = this.#users.get(namespace) ?? create();
    this.#users.set(namespace, user);
    return user;
  }

  async pets(namespace: string): Promise<unknown> {
    const ids = this.#ids.get(namespace) ?? new Set();
    this.#ids.set(namespace, ids);
    const { items } = await this.#client.list(Pet, { namespace });
    for (const { status } of items) if (status?.id !== undefined) ids.add(status.id);
    return (await this.#allPets()).filter(({ id }) => ids.has(id)).map(({ id: _, ...pet }) => pet);
  }

  /** The pets whose names contain the namespace. Their ids are replaced by whether a Pet has them. */
  async petsNamedAfter(namespace: string): Promise<readonly unknown[]> {
    const { items } = await this.#client.list(Pet, { namespace });
    const ids = items.map(({ status }) => status?.id);
    const pets = (await this.#allPets()).filter(({ name }) => name.includes(namespace));
    return pets.map(({ id, name, ...pet }) => ({
      ...pet,
      name: name.replace(namespace, '<namespace>'),
      isOfPet: ids.includes(id),
    }));
  }

  /** Somebody else changes or deletes the rows of a namespace's PostgresWriters. */
  async changeRows(namespace: string, how: 'edited' | 'deleted'): Promise<void> {
    const change = {
      edited: (table: string) => `UPDATE ${table} SET name = 'Eve', country = 'FR'`,
      deleted: deleteFrom,
    };
    for (const table of tables) await this.#query(`${change[how](table)} WHERE id LIKE ${literal(`${namespace}/%`)}`);
  }

  /** Somebody else changes or deletes the pets whose names contain the namespace. */
  async changePets(namespace: string, how: 'edited' | 'deleted'): Promise<void> {
    const pets = (await this.#allPets()).filter(({ name }) => name.includes(namespace));
    if (how === 'deleted') await this.#store.delete(pets.map(({ id }) => id));
    else for (const pet of pets) await this.#store.update({ ...pet, type: 'bird', birthday: '1999-12-31' });
  }

  /** @throws Error if there is a row or a pet */
  async expectEmpty(): Promise<void> {
    const pets = await this.#allPets();
    if (pets.length > 0) throw new Error(`the store has ${pets.length} pets that no Pet has`);
    for (const table of tables) {
      const rows = await this.#query(`SELECT id FROM ${table}`);
      if (rows.length > 0) throw new Error(`${table} has ${rows.length} rows that no PostgresWriter has`);
    }
  }

  async #query(text: string): Promise<readonly Readonly<Record<string, unknown>>[]> {
    const { PSQL_HOST: host, PSQL_PORT: port, PSQL_USER: user, PSQL_PASSWORD: password } = this.settings;
    const database = new PostgresClient({ host, port: Number(port), user, password, database: 'postgres', ssl: false });
    await database.connect();
    try {
      return (await database.query(text)).rows;
    } finally {
      await database.end();
    }
  }

  async #allPets(): Promise<readonly ShownPet[]> {
    const pets: ShownPet[] = [];
    for await (const pet of this.#store.list({ names: [], types: [] })) pets.push(pet);
    return pets;
  }

  [Symbol.dispose](): void {
    this.#store[Symbol.dispose]();
  }
}
