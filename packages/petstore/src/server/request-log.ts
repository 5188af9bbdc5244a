import { createHash } from 'node:crypto';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { RequestIdTakenError } from './errors.ts';

/** A request with an id. The client may repeat the request after a lost response. */
export interface NamedRequest {
  /** Chosen by the client, the same for all attempts. */
  readonly id: string;
  /** The method and its arguments, serialized. */
  readonly content: string;
}

/**
 * The maximum number of expired requests that each new request removes, so that no single request removes all of them.
 */
const expiredPerRequest = 50;

const oldestExpired = `
  SELECT id FROM requests WHERE expires_at <= $nowMs ORDER BY expires_at LIMIT ${expiredPerRequest}
`;

/** Whether a pet that the request added still exists. */
const hasPet = 'EXISTS (SELECT 1 FROM json_each(requests.answer) AS added JOIN pets ON pets.id = added.value)';

/**
 * Remembers the ids of requests and their responses, in the transaction of the request itself. It remembers a request
 * for a time, and for as long as a pet that the request added exists. So no repetition, however late, adds that pet
 * again. It stores a digest of the content, because a request may have 256 KiB.
 */
export class RequestLog {
  readonly #keptMs: number;
  readonly #find: StatementSync;
  readonly #remember: StatementSync;
  readonly #renew: StatementSync;
  readonly #forget: StatementSync;

  /** @param keptMs how long a request is remembered at least, in milliseconds. */
  constructor(database: DatabaseSync, keptMs: number) {
    this.#keptMs = keptMs;
    this.#find = database.prepare(
      `SELECT asked, answer FROM requests WHERE id = $id AND (expires_at > $nowMs OR ${hasPet})`,
    );
    this.#remember = database.prepare(
      'INSERT OR REPLACE INTO requests (id, asked, answer, expires_at) VALUES (?, ?, ?, ?)',
    );
    this.#renew = database.prepare(
      `UPDATE requests SET expires_at = $nowMs + $keptMs WHERE id IN (${oldestExpired}) AND ${hasPet}`,
    );
    this.#forget = database.prepare(`DELETE FROM requests WHERE id IN (${oldestExpired}) AND NOT ${hasPet}`);
  }

  /**
   * Returns the remembered response, or does the work and remembers its result. The caller must have opened the
   * transaction.
   *
   * @throws RequestIdTakenError if the id belongs to a request with other content; what `work` throws.
   */
  once(request: NamedRequest, nowMs: number, work: () => readonly string[]): readonly string[] {
    const digest = createHash('sha256').update(request.content).digest('base64');
    const before = this.#find.get({ id: request.id, nowMs });
    if (before !== undefined) {
      if (before.asked !== digest) {
        throw new RequestIdTakenError(`request-id: ${JSON.stringify(request.id)} belongs to another request`);
      }
      return JSON.parse(String(before.answer));
    }
    const response = work();
    this.#renew.run({ nowMs, keptMs: this.#keptMs });
    this.#forget.run({ nowMs });
    this.#remember.run(request.id, digest, JSON.stringify(response), nowMs + this.#keptMs);
    return response;
  }
}
