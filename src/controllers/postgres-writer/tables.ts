import type { Circuit } from '../outside/index.ts';
import type { Database } from './database.ts';
import { UnfitTableError } from './faults.ts';
import type { Rendezvous } from './rendezvous.ts';
import { rowColumns } from './row.ts';
import { Rows, tableCircuit } from './rows.ts';
import { findTable } from './statements.ts';
import { type Table, type TableName, tableText } from './table-name.ts';

/** For how long a name is taken to lead where it did, in milliseconds. Then the catalogue is asked again. */
const knownForMs = 30_000;

/**
 * For how long a name is remembered after it was last asked for, in milliseconds: longer than anybody waits who was refused.
 * Users make names up, any number of them.
 */
const rememberedForMs = 60_000;

interface Known {
  readonly circuit: Circuit;
  table: Promise<Table> | undefined;
  untilMs: number;
  askedAtMs: number;
}

interface FoundTable extends Table {
  readonly columns: readonly string[];
}

/** The tables of the database: what a name leads to, and the rows of each. */
export class Tables {
  readonly #database: Pick<Database, 'query'>;
  readonly #rendezvous: Rendezvous;
  readonly #known = new Map<string, Known>();
  readonly #rows = new Map<string, Rows>();
  #forgotAtMs = 0;

  constructor(options: {
    readonly database: Pick<Database, 'query'>;
    readonly rendezvous: Rendezvous;
  }) {
    this.#database = options.database;
    this.#rendezvous = options.rendezvous;
  }

  /**
   * The table that a name leads to. No statement on the table itself is sent for it.
   *
   * @throws OutsideDownError when there is none, or it lacks a column, or the database cannot be used.
   */
  find(name: TableName): Promise<Table> {
    const known = this.#knownAs(name);
    if (known.table === undefined || performance.now() >= known.untilMs) {
      known.untilMs = performance.now() + knownForMs;
      const table = known.circuit.call(() => this.#look(name));
      known.table = table;
      table.catch(() => {
        // Whoever asks next meets the circuit.
        if (known.table === table) known.table = undefined;
      });
    }
    return known.table;
  }

  /** The rows of a table. */
  rowsOf(table: Table): Rows {
    const text = tableText(table);
    const options = { database: this.#database, rendezvous: this.#rendezvous };
    const rows = this.#rows.get(text) ?? new Rows(table, options);
    this.#rows.set(text, rows);
    return rows;
  }

  #knownAs(name: TableName): Known {
    const key = tableText(name);
    const nowMs = performance.now();
    this.#forget(nowMs);
    const known = this.#known.get(key) ?? {
      circuit: tableCircuit(key),
      table: undefined,
      untilMs: 0,
      askedAtMs: 0,
    };
    known.askedAtMs = nowMs;
    this.#known.set(key, known);
    return known;
  }

  /** Whoever still wants to know of a name has asked since: no circuit that is cut is lost, and with it a pause. */
  #forget(nowMs: number): void {
    if (nowMs - this.#forgotAtMs < rememberedForMs) return;
    this.#forgotAtMs = nowMs;
    for (const [key, { askedAtMs }] of this.#known) {
      if (nowMs - askedAtMs >= rememberedForMs) this.#known.delete(key);
    }
  }

  async #look(name: TableName): Promise<Table> {
    const [found] = await this.#database.query<FoundTable>(findTable(name));
    if (found === undefined) throw new UnfitTableError('TableMissing', 'the database has no such table');
    const missing = rowColumns.filter((column) => !found.columns.includes(column));
    if (missing.length > 0) {
      throw new UnfitTableError('ColumnMissing', `the table has no column ${missing.join(', ')}`);
    }
    return { schema: found.schema, name: found.name };
  }
}
