import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { ConnectionFailedError, sqlStateOf } from './faults.ts';
import { type Backend, findBackends, type Statement, terminateBackends } from './statements.ts';

/** Asks the database on some connection. */
export type Ask = <R extends object>(statement: Statement) => Promise<readonly R[]>;

/** Every connection of every operator has a name that begins so. */
const prefix = 'echoperator-';

/** For how long a connection that was ended may be there still, in milliseconds. */
const maxWaitMs = 2000;
const lookEveryMs = 20;

/**
 * Sees to it that no earlier statement of ours is still under way before another is sent: one of which nothing is known, since
 * its connection broke, would else land on top of what came after it, and bring back a row that was deleted. The server
 * notices by itself only when the statement is done.
 *
 * Each connection has a name of its own (its `application_name`, which poolers pass on). Those on which a statement was lost
 * are ended by name; and in the beginning all that other processes have left, of the same role in the same database: one
 * that led before may have been killed in the middle of a statement.
 */
export class EarlierConnections {
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

  /** On the connection of that name a statement may still be under way. */
  lost(name: string): void {
    this.#lost.add(name);
  }

  /**
   * Returns when none is left; at once where that is known.
   *
   * @throws what `ask` throws; ConnectionFailedError when one does not end.
   */
  async ended(ask: Ask): Promise<void> {
    while (this.#lost.size > 0 || !this.#foundOthers) {
      this.#ending ??= this.#end(ask).finally(() => {
        this.#ending = undefined;
      });
      await this.#ending;
    }
  }

  async #end(ask: Ask): Promise<void> {
    const names = [...this.#lost];
    const which = { names, prefix, except: this.#foundOthers ? prefix : this.#process };
    const untilMs = performance.now() + maxWaitMs;
    for (let isFirst = true; !(await noneLeft(ask, findBackends(which))); isFirst = false) {
      if (performance.now() >= untilMs) {
        throw new ConnectionFailedError(new Error('an earlier statement of the operator is still under way'));
      }
      // Where even one's own connections are not to be ended, it is waited for that they end.
      if (isFirst) await ask(terminateBackends(which)).catch(unlessRefused);
      else await delay(lookEveryMs);
    }
    for (const name of names) this.#lost.delete(name);
    this.#foundOthers = true;
  }
}

async function noneLeft(ask: Ask, statement: Statement): Promise<boolean> {
  const found = await ask<Backend>(statement);
  // What is seen there is not what is under way on the primary.
  if (found.some(({ standby }) => standby)) throw new ConnectionFailedError(new Error('the server is a standby'));
  return found.every(({ pid }) => pid === null);
}

function unlessRefused(error: unknown): void {
  if (sqlStateOf(error) !== '42501') throw error;
}
