import { X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { isDeepStrictEqual } from 'node:util';
import type { AuthenticationHeaders, TlsOptions } from './connection.ts';

/** What a connection presents to the server, and the authorities that it trusts. */
export interface Credentials {
  readonly headers: AuthenticationHeaders;
  readonly tls: TlsOptions;
}

/**
 * As in client-go. The kubelet replaces a token long before it expires, and a CA while the previous one is still valid.
 */
const defaultMaxAgeMs = 60_000;

/** Credentials in files that may be replaced. They are loaded again after a minute, and after a rejection. */
export class ReloadedCredentials {
  readonly #load: () => Promise<Credentials>;
  readonly #maxAgeMs: number;
  #current: Credentials;
  #loadedAtMs = performance.now();
  #loading: Promise<AuthenticationHeaders> | undefined;
  #isRejected = false;
  /** The problem of the last reload that was reported. */
  #reported: string | undefined;

  private constructor(load: () => Promise<Credentials>, first: Credentials, maxAgeMs: number) {
    this.#load = load;
    this.#current = first;
    this.#maxAgeMs = maxAgeMs;
  }

  /**
   * Loads the credentials for the first time.
   *
   * @param maxAgeMs how long they are used before they are loaded again. Default 60,000.
   * @throws the error of `load`; Error for TLS options that are not valid PEM.
   */
  static async start(
    load: () => Promise<Credentials>,
    maxAgeMs: number = defaultMaxAgeMs,
  ): Promise<ReloadedCredentials> {
    const first = await load();
    validate(first.tls);
    return new ReloadedCredentials(load, first, maxAgeMs);
  }

  /** The same object as long as the options are the same: a new one opens new connections. */
  get tls(): TlsOptions {
    return this.#current.tls;
  }

  /**
   * Returns the headers: the same object as long as they are the same.
   *
   * @throws as {@link start}, but only if the server has rejected the current credentials. Otherwise these stay in use,
   *   also if the new files are damaged.
   */
  authentication(): AuthenticationHeaders | Promise<AuthenticationHeaders> {
    if (!this.#isRejected && performance.now() - this.#loadedAtMs < this.#maxAgeMs) return this.#current.headers;
    this.#loading ??= this.#reload().finally(() => {
      this.#loading = undefined;
    });
    return this.#loading;
  }

  /** The server rejected these headers: the next call of {@link authentication} loads the credentials again. */
  invalidate(headers: AuthenticationHeaders): void {
    if (headers === this.#current.headers) this.#isRejected = true;
  }

  /**
   * Reports each problem once, as a warning of the process, because a connection is created before there is a logger.
   */
  #report(error: unknown): void {
    const problem = String(error);
    if (problem === this.#reported) return;
    this.#reported = problem;
    process.emitWarning(`new credentials for the API server cannot be used, the previous ones stay: ${problem}`);
  }

  async #reload(): Promise<AuthenticationHeaders> {
    try {
      const { headers, tls } = await this.#load();
      const { headers: oldHeaders, tls: oldTls } = this.#current;
      const isSameTls = isDeepStrictEqual(tls, oldTls);
      if (!isSameTls) validate(tls);
      this.#current = {
        headers: isDeepStrictEqual(headers, oldHeaders) ? oldHeaders : headers,
        tls: isSameTls ? oldTls : tls,
      };
      this.#isRejected = false;
      this.#reported = undefined;
    } catch (error) {
      // The files may be in the middle of a replacement, and the old credentials are valid until they expire.
      if (this.#isRejected) throw error;
      this.#report(error);
    }
    this.#loadedAtMs = performance.now();
    return this.#current.headers;
  }
}

/**
 * Node checks too late or not at all: with an empty CA it trusts the public authorities, and with a damaged CA it
 * trusts no server.
 */
function validate({ ca, cert, key }: TlsOptions): void {
  if (ca !== undefined) attempt('the CA is not a certificate in PEM', () => new X509Certificate(ca));
  if (cert === undefined && key === undefined) return;
  // Also fails while a certificate has been replaced and its key has not.
  attempt('the client certificate and its key are not a pair in PEM', () => createSecureContext({ cert, key }));
}

function attempt(problem: string, check: () => unknown): void {
  try {
    check();
  } catch (cause) {
    throw new Error(problem, { cause });
  }
}
