import { readFile } from 'node:fs/promises';
import type { AuthenticationHeaders } from './connection.ts';

/** The kubelet replaces a token well before it expires; client-go too reads it anew after a minute. */
export const fileMaxAgeMs = 60_000;

/** A bearer token in a file that somebody replaces: read anew when it is a minute old, or when it was refused. */
export class TokenFile {
  readonly #path: string;
  #headers: AuthenticationHeaders | undefined;
  #reading: Promise<AuthenticationHeaders> | undefined;
  #readAtMs = 0;
  #refused = false;

  constructor(path: string) {
    this.#path = path;
  }

  /**
   * The headers that carry the token.
   *
   * @throws what reading the file does, unless there is an earlier token that was not refused.
   */
  authentication(): AuthenticationHeaders | Promise<AuthenticationHeaders> {
    // Of a clock that nobody sets.
    const isFresh = performance.now() - this.#readAtMs <= fileMaxAgeMs;
    if (this.#headers !== undefined && isFresh && !this.#refused) return this.#headers;
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  /** The server did not take the token: the next one is read from the file, however fresh this one is. */
  refused(headers: AuthenticationHeaders): void {
    if (headers === this.#headers) this.#refused = true;
  }

  async #read(): Promise<AuthenticationHeaders> {
    try {
      const token = (await readFile(this.#path, 'utf8')).trim();
      // The same object for the same token: whoever compares them sees that nothing is new.
      const authorization = `Bearer ${token}`;
      if (this.#headers?.authorization !== authorization) this.#headers = { authorization };
      this.#refused = false;
    } catch (error) {
      // A token that could not be replaced is good until it expires.
      if (this.#headers === undefined || this.#refused) throw error;
    }
    this.#readAtMs = performance.now();
    return this.#headers;
  }
}
