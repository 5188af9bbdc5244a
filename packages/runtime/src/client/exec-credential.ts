import { execFile } from 'node:child_process';
import { dirname, isAbsolute, join } from 'node:path';
import { type AuthenticationHeaders, ConnectionError } from './connection.ts';

/** The `exec` section of a kubeconfig user: a program that prints credentials (KEP-541). */
export interface ExecPlugin {
  readonly apiVersion?: string;
  readonly command: string;
  readonly args?: readonly string[] | null;
  readonly env?: readonly { readonly name: string; readonly value: string }[] | null;
  readonly installHint?: string;
  readonly interactiveMode?: 'Never' | 'IfAvailable' | 'Always';
  readonly provideClusterInfo?: boolean;
}

/** The credentials that a plugin printed. */
export interface ExecCredentials {
  readonly headers: AuthenticationHeaders;
  readonly certificate: { readonly cert: string; readonly key: string } | undefined;
  /** Milliseconds since 1970. Undefined: valid until the server rejects the credentials. */
  readonly expiresAtMs: number | undefined;
}

/** Long enough for a plugin that calls a cloud's login service; a slower one is considered hung. */
const pluginTimeoutMs = 60_000;

/**
 * The credentials of an exec plugin. The plugin runs as a child process when there are no credentials yet, when they
 * have expired, and after the server has rejected them. Concurrent callers share one run.
 */
export class ExecCredential {
  readonly #plugin: ExecPlugin;
  readonly #name: string;
  readonly #command: string;
  readonly #cluster: () => object;
  #credentials: ExecCredentials | undefined;
  #running: Promise<ExecCredentials> | undefined;

  /**
   * @param kubeconfig the path of the plugin's kubeconfig; a relative command with a slash is relative to its folder.
   * @param cluster returns the cluster information for a plugin with `provideClusterInfo`.
   * @throws ConnectionError for a plugin without a command, or one that requires a terminal (interactiveMode Always).
   */
  constructor(plugin: ExecPlugin, kubeconfig: string, cluster: () => object) {
    const { command, interactiveMode } = plugin;
    this.#name = `credential plugin ${command}`;
    if (!command) throw new ConnectionError(`the credential plugin of ${kubeconfig} has no command`);
    if (interactiveMode === 'Always') {
      throw new ConnectionError(`the ${this.#name} has interactiveMode Always, but this process has no terminal`);
    }
    this.#plugin = plugin;
    this.#command = command.includes('/') && !isAbsolute(command) ? join(dirname(kubeconfig), command) : command;
    this.#cluster = cluster;
  }

  /**
   * Returns the current credentials, and runs the plugin if necessary.
   *
   * @throws ConnectionError with the plugin's stderr.
   */
  current(): ExecCredentials | Promise<ExecCredentials> {
    const { expiresAtMs } = this.#credentials ?? {};
    if (this.#credentials !== undefined && (expiresAtMs === undefined || Date.now() < expiresAtMs)) {
      return this.#credentials;
    }
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** The server rejected these headers: the next call of {@link current} runs the plugin, even before they expire. */
  invalidate(headers: AuthenticationHeaders): void {
    if (headers === this.#credentials?.headers) this.#credentials = undefined;
  }

  async #run(): Promise<ExecCredentials> {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const { args, env } = this.#plugin;
    const child = execFile(
      this.#command,
      args ?? [],
      {
        env: {
          ...process.env,
          ...Object.fromEntries((env ?? []).map(({ name, value }) => [name, value])),
          KUBERNETES_EXEC_INFO: JSON.stringify(this.#info()),
        },
        timeout: pluginTimeoutMs,
        killSignal: 'SIGKILL',
      },
      (error, stdout, stderr) => {
        if (error === null) resolve(stdout);
        else reject(this.#failure(error, stderr));
      },
    );
    // End stdin, so that a plugin that reads from it does not wait.
    child.stdin?.end();
    this.#credentials = this.#parse(await promise);
    return this.#credentials;
  }

  #info(): object {
    const { apiVersion = 'client.authentication.k8s.io/v1', provideClusterInfo = false } = this.#plugin;
    const spec = { interactive: false, ...(provideClusterInfo && { cluster: this.#cluster() }) };
    return { apiVersion, kind: 'ExecCredential', spec };
  }

  #failure(error: Error & { readonly killed?: boolean; readonly code?: unknown }, stderr: string): ConnectionError {
    const problem =
      error.killed === true
        ? `was killed after ${pluginTimeoutMs / 1000} s`
        : typeof error.code === 'number'
          ? `exited with code ${error.code}`
          : `did not run: ${error.message}`;
    const output = stderr.trim() === '' ? '' : `: ${stderr.trim().slice(-1000)}`;
    const hint = error.code === 'ENOENT' && this.#plugin.installHint ? ` (${this.#plugin.installHint.trim()})` : '';
    return new ConnectionError(`the ${this.#name} ${problem}${output}${hint}`, { cause: error });
  }

  #parse(stdout: string): ExecCredentials {
    const { token, clientCertificateData, clientKeyData, expirationTimestamp } = this.#status(stdout);
    if (!token && !(clientCertificateData && clientKeyData)) {
      throw new ConnectionError(`the ${this.#name} printed neither a token nor a certificate with its key`);
    }
    const expiresAtMs = expirationTimestamp === undefined ? undefined : Date.parse(expirationTimestamp);
    if (Number.isNaN(expiresAtMs)) {
      throw new ConnectionError(`the ${this.#name} printed the invalid expirationTimestamp "${expirationTimestamp}"`);
    }
    return {
      headers: token ? { authorization: `Bearer ${token}` } : {},
      certificate:
        clientCertificateData && clientKeyData ? { cert: clientCertificateData, key: clientKeyData } : undefined,
      expiresAtMs,
    };
  }

  #status(stdout: string): {
    readonly token?: string;
    readonly clientCertificateData?: string;
    readonly clientKeyData?: string;
    readonly expirationTimestamp?: string;
  } {
    try {
      // The output usually contains a secret, so it must not appear in an error.
      return JSON.parse(stdout).status ?? {};
    } catch {
      throw new ConnectionError(`the ${this.#name} did not print an ExecCredential in JSON`);
    }
  }
}
