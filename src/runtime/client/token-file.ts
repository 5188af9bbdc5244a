import { readFile } from 'node:fs/promises';
import type { AuthenticationHeaders } from './connection.ts';

/** As in client-go. The kubelet replaces a token long before it expires. */
export const fileMaxAgeMs = 60_000;

/** A bearer token in a file that may be replaced. The file is read again after a minute, and after a rejection. */
export class TokenFile {
  readonly #path: string;
  #headers: AuthenticationHeaders | undefined;
  #reading: Promise<AuthenticationHeaders> | undefined;
  #readAtMs = 0;
  #isRejected = false;

  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Returns the headers with the token.
   *
   * @throws the error of reading the file, unless there is an earlier token that the server has not rejected.
   */
  authentication(): AuthenticationHeaders | Promise<AuthenticationHeaders> {
    const isFresh = performance.now() - this.#readAtMs <= fileMaxAgeMs;
    if (this.#headers !== undefined && isFresh && !this.#isRejected) return this.#headers;
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  /** The server rejected these headers: the next call of {@link authentication} reads the file again. */
  invalidate(headers: AuthenticationHeaders): void {
    if (headers === this.#headers) this.#isRejected = true;
  }

  async #read(): Promise<AuthenticationHeaders> {
    try {
      const token = (await readFile(this.#path, 'utf8')).trim();
      // Keep the object if the token is the same: callers compare by identity.
      const authorization = `Bearer ${token}`;
      if (this.#headers?.authorization !== authorization) this.#headers = { authorization };
      this.#isRejected = false;
    } catch (error) {
      // Keep using the old token, which is valid until it expires.
      if (this.#headers === undefined || this.#isRejected) throw error;
    }
    this.#readAtMs = performance.now();
    return this.#headers;
  }
}
