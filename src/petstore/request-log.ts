import { createHash } from 'node:crypto';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { RequestIdTakenError } from './errors.ts';

/** A request that may come again, because its answer was lost. */
export interface NamedRequest {
  /** The client's name for it, the same for all of its attempts. */
  readonly id: string;
  /** What is asked for, as a text. */
  readonly asked: string;
}

/** So many that have expired are forgotten with each new one: the table shrinks as fast as it grows, and no request waits. */
const forgottenAtOnce = 50;

/**
 * Remembers named requests and their answers, for a while, in the transaction that does what they ask. Of what was asked it keeps
 * a digest: a request has up to 4 MiB.
 */
export class RequestLog {
  readonly #keptMs: number;
  readonly #find: StatementSync;
  readonly #remember: StatementSync;
  readonly #forget: StatementSync;

  /** @param keptMs for how long, in milliseconds. */
  constructor(database: DatabaseSync, keptMs: number) {
    this.#keptMs = keptMs;
    this.#find = database.prepare('SELECT asked, answer FROM requests WHERE id = ? AND expires_at > ?');
    this.#remember = database.prepare(
      'INSERT OR REPLACE INTO requests (id, asked, answer, expires_at) VALUES (?, ?, ?, ?)',
    );
    this.#forget = database.prepare(
      `DELETE FROM requests WHERE id IN
         (SELECT id FROM requests WHERE expires_at <= ? ORDER BY expires_at LIMIT ${forgottenAtOnce})`,
    );
  }

  /**
   * Answers as the request was answered before, or does the work and remembers its answer. To be called in the transaction of
   * the work.
   *
   * @throws RequestIdTakenError where the id is that of a request for something else; what the work throws.
   */
  once(request: NamedRequest, nowMs: number, work: () => readonly string[]): readonly string[] {
    const asked = createHash('sha256').update(request.asked).digest('base64');
    const before = this.#find.get(request.id, nowMs);
    if (before !== undefined) {
      if (before.asked !== asked) {
        throw new RequestIdTakenError(`request-id: ${JSON.stringify(request.id)} is that of another request`);
      }
      return JSON.parse(String(before.answer));
    }
    const answer = work();
    this.#forget.run(nowMs);
    this.#remember.run(request.id, asked, JSON.stringify(answer), nowMs + this.#keptMs);
    return answer;
  }
}
