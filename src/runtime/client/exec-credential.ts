import { execFile } from 'node:child_process';
import { dirname, isAbsolute, join } from 'node:path';
import { type AuthenticationHeaders, ConnectionError } from './connection.ts';

/** A kubeconfig user's `exec`: the program that hands out credentials (KEP-541). */
export interface ExecPlugin {
  readonly apiVersion?: string;
  readonly command: string;
  readonly args?: readonly string[] | null;
  readonly env?: readonly { readonly name: string; readonly value: string }[] | null;
  readonly installHint?: string;
  readonly interactiveMode?: 'Never' | 'IfAvailable' | 'Always';
  readonly provideClusterInfo?: boolean;
}

/** What a plugin has handed out. */
export interface ExecCredentials {
  readonly headers: AuthenticationHeaders;
  readonly certificate: { readonly cert: string; readonly key: string } | undefined;
  /** Milliseconds since 1970; absent: good until the server refuses them. */
  readonly expiresAtMs: number | undefined;
}

/** A plugin may ask a cloud's login service; one that takes longer hangs. */
const pluginTimeoutMs = 60_000;

/**
 * The credentials of an exec plugin, which is run when they are needed: at first, when they have expired, and when the
 * server has refused them; once for all who wait. It is a child process: it never blocks this one.
 */
export class ExecCredential {
  readonly #plugin: ExecPlugin;
  readonly #name: string;
  readonly #command: string;
  readonly #cluster: object;
  #credentials: ExecCredentials | undefined;
  #running: Promise<ExecCredentials> | undefined;

  /**
   * @param kubeconfig the path of the file that the plugin stands in: a command with a slash is relative to its folder.
   * @param cluster what a plugin that asks for it is told of the cluster.
   * @throws ConnectionError for a plugin that only works with somebody at the keyboard.
   */
  constructor(plugin: ExecPlugin, kubeconfig: string, cluster: object) {
    const { command, interactiveMode } = plugin;
    this.#name = `credential plugin ${command}`;
    if (!command) throw new ConnectionError(`the credential plugin of ${kubeconfig} has no command`);
    if (interactiveMode === 'Always') {
      throw new ConnectionError(`the ${this.#name} has interactiveMode Always, and nobody is there to answer it`);
    }
    this.#plugin = plugin;
    this.#command = command.includes('/') && !isAbsolute(command) ? join(dirname(kubeconfig), command) : command;
    this.#cluster = cluster;
  }

  /** @throws ConnectionError with what the plugin wrote to stderr. */
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

  /** The server did not take them: the next call runs the plugin, whatever the time is. */
  refused(headers: AuthenticationHeaders): void {
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
    // A plugin that waits for an answer gets none.
    child.stdin?.end();
    this.#credentials = this.#parse(await promise);
    return this.#credentials;
  }

  #info(): object {
    const { apiVersion = 'client.authentication.k8s.io/v1', provideClusterInfo = false } = this.#plugin;
    const spec = { interactive: false, ...(provideClusterInfo && { cluster: this.#cluster }) };
    return { apiVersion, kind: 'ExecCredential', spec };
  }

  #failure(error: Error & { readonly killed?: boolean; readonly code?: unknown }, stderr: string): ConnectionError {
    const how =
      error.killed === true
        ? `was killed after ${pluginTimeoutMs / 1000} s`
        : typeof error.code === 'number'
          ? `ended with ${error.code}`
          : `did not run: ${error.message}`;
    const said = stderr.trim() === '' ? '' : `: ${stderr.trim().slice(-1000)}`;
    const hint = error.code === 'ENOENT' && this.#plugin.installHint ? ` (${this.#plugin.installHint.trim()})` : '';
    return new ConnectionError(`the ${this.#name} ${how}${said}${hint}`, { cause: error });
  }

  #parse(stdout: string): ExecCredentials {
    const { token, clientCertificateData, clientKeyData, expirationTimestamp } = this.#status(stdout);
    if (!token && !(clientCertificateData && clientKeyData)) {
      throw new ConnectionError(`the ${this.#name} printed neither a token nor a certificate with its key`);
    }
    const expiresAtMs = expirationTimestamp === undefined ? undefined : Date.parse(expirationTimestamp);
    if (Number.isNaN(expiresAtMs)) {
      throw new ConnectionError(`the ${this.#name} printed the expirationTimestamp "${expirationTimestamp}"`);
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
      // What it printed is a secret, as a rule: no error shows it.
      return JSON.parse(stdout).status ?? {};
    } catch {
      throw new ConnectionError(`the ${this.#name} printed no ExecCredential`);
    }
  }
}
