import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { ConnectionFailedError, sqlStateOf } from './errors.ts';
import { type Backend, findBackends, type Statement, terminateBackends } from './statements.ts';

/** Queries the database on some connection. */
export type Ask = <R extends object>(statement: Statement) => Promise<readonly R[]>;

/** The name of every connection of every operator begins with it. */
const prefix = 'echoperator-';

/** How long a terminated backend may take to go, in milliseconds. */
const maxWaitMs = 2000;
const lookEveryMs = 20;

/**
 * Ends the backends on which an earlier statement of ours may still run, before another statement is sent. A statement whose
 * connection broke may otherwise be carried out after the next one, and bring back a row that was deleted: the server notices a
 * broken connection only when the statement is done.
 *
 * Each connection has a name of its own (its `application_name`, which poolers pass on). Backends that lost a statement are ended
 * by name; at first also all that other processes have left, of the same role in the same database: a former leader may have been
 * killed during a statement.
 */
export class StaleBackends {
  readonly #process = `${prefix}${randomUUID().slice(0, 13)}-`;
  readonly #lost = new Set<string>();
  #count = 0;
  #foundOthers = false;
  #ending: Promise<void> | undefined;

  /** A name for a new connection. */
  nextName(): string {
    this.#count += 1;
    return `${this.#process}${this.#count}`;
  }

  /** Notes that a statement may still run on the connection of that name. */
  add(name: string): void {
    this.#lost.add(name);
  }

  /**
   * Returns when no stale backend is left; at once if there was none.
   *
   * @throws what `ask` throws; ConnectionFailedError if a backend does not end.
   */
  async end(ask: Ask): Promise<void> {
    while (this.#lost.size > 0 || !this.#foundOthers) {
      this.#ending ??= this.#endAll(ask).finally(() => {
        this.#ending = undefined;
      });
      await this.#ending;
    }
  }

  async #endAll(ask: Ask): Promise<void> {
    const names = [...this.#lost];
    const which = { names, prefix, except: this.#foundOthers ? prefix : this.#process };
    const untilMs = performance.now() + maxWaitMs;
    for (let isFirst = true; !(await noneLeft(ask, findBackends(which))); isFirst = false) {
      if (performance.now() >= untilMs) {
        throw new ConnectionFailedError(new Error('an earlier statement of the operator is still under way'));
      }
      // A role that may not terminate its own backends waits until they end.
      if (isFirst) await ask(terminateBackends(which)).catch(unlessRefused);
      else await delay(lookEveryMs);
    }
    for (const name of names) this.#lost.delete(name);
    this.#foundOthers = true;
  }
}

async function noneLeft(ask: Ask, statement: Statement): Promise<boolean> {
  const found = await ask<Backend>(statement);
  // A standby does not show what runs on the primary.
  if (found.some(({ standby }) => standby)) throw new ConnectionFailedError(new Error('the server is a standby'));
  return found.every(({ pid }) => pid === null);
}

function unlessRefused(error: unknown): void {
  if (sqlStateOf(error) !== '42501') throw error;
}
