import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { ConnectionFailedError, sqlStateOf } from './errors.ts';
import { type Backend, findBackends, type Statement, terminateBackends } from './statements.ts';

/** Sends a statement on a connection. */
export type Send = <R extends object>(statement: Statement) => Promise<readonly R[]>;

/** The beginning of the name of every connection of every operator. */
const prefix = 'echoperator-';

/** How long a terminated backend may take to end, in milliseconds. */
const maxWaitMs = 2000;
const pollEveryMs = 20;

/**
 * Terminates the backends on which an earlier statement of the operator may still run, before another statement is
 * sent. The server notices a broken connection only when the statement ends. Without the termination that statement
 * might be executed after the next one, and restore a deleted row.
 *
 * Each connection has a unique name (its `application_name`, which poolers pass on). Backends whose statement had no
 * response are terminated by name. A former leader may have been killed during a statement. Therefore all backends of
 * other operator processes with the same role and database are terminated before the first statement.
 */
export class StaleBackends {
  readonly #process = `${prefix}${randomUUID().slice(0, 13)}-`;
  readonly #lost = new Set<string>();
  #count = 0;
  #endedOthers = false;
  #ending: Promise<void> | undefined;

  /** Returns a name for a new connection. */
  nextName(): string {
    this.#count += 1;
    return `${this.#process}${this.#count}`;
  }

  /** Notes that a statement may still run on the connection with this name. */
  add(name: string): void {
    this.#lost.add(name);
  }

  /**
   * Resolves when no stale backend is left.
   *
   * @throws any error of `send`; ConnectionFailedError if a backend does not end in time.
   */
  async end(send: Send): Promise<void> {
    while (this.#lost.size > 0 || !this.#endedOthers) {
      this.#ending ??= this.#endAll(send).finally(() => {
        this.#ending = undefined;
      });
      await this.#ending;
    }
  }

  async #endAll(send: Send): Promise<void> {
    const names = [...this.#lost];
    const which = { names, prefix, except: this.#endedOthers ? prefix : this.#process };
    const untilMs = performance.now() + maxWaitMs;
    for (let isFirst = true; !(await noneLeft(send, findBackends(which))); isFirst = false) {
      if (performance.now() >= untilMs) {
        throw new ConnectionFailedError(new Error('an earlier statement of the operator is still running'));
      }
      // A role without the permission to terminate its own backends waits until they end.
      if (isFirst) await send(terminateBackends(which)).catch(ignorePermissionDenied);
      else await delay(pollEveryMs);
    }
    for (const name of names) this.#lost.delete(name);
    this.#endedOthers = true;
  }
}

async function noneLeft(send: Send, statement: Statement): Promise<boolean> {
  const found = await send<Backend>(statement);
  // A standby does not show the backends of the primary.
  if (found.some(({ standby }) => standby)) throw new ConnectionFailedError(new Error('the server is a standby'));
  return found.every(({ pid }) => pid === null);
}

function ignorePermissionDenied(error: unknown): void {
  if (sqlStateOf(error) !== '42501') throw error;
}
