import { accept, amount, type LogLevel, logLevel, port, readEnvironment, seconds, text } from '../environment.ts';

/** The pet store's settings; each comes from an environment variable (docs/pet-store.md). */
export interface Settings {
  /** PETSTORE_LISTEN: where it is served. */
  readonly listen: { readonly host: string; readonly port: number };
  /** PETSTORE_DATABASE: the file that holds the pets. */
  readonly databasePath: string;
  /** PETSTORE_HTTP_PORT: where /healthz, /readyz and /metrics answer. */
  readonly httpPort: number;
  /** PETSTORE_REQUEST_IDS_KEPT_HOURS: for how long request ids are remembered. */
  readonly requestIdsKeptHours: number;
  /** PETSTORE_TLS_CERT_FILE and PETSTORE_TLS_KEY_FILE: the paths of certificate and key. Absent: plain text. */
  readonly tls: { readonly certFile: string; readonly keyFile: string } | undefined;
  /** SHUTDOWN_TIMEOUT_SECONDS: how long requests under way may take to end after SIGTERM. */
  readonly shutdownTimeoutSeconds: number;
  /** ENV: the environment's name, in each line of the log. */
  readonly env: string;
  /** LOG_LEVEL */
  readonly logLevel: LogLevel;
}

/** The environment holds values that the pet store can't take. The message has one line for each. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
}

const address = accept('an address and a port, as 0.0.0.0:6742 or [::]:6742', (text) => {
  const [, bracketed, plain, end = ''] = /^(?:\[([^\]]+)\]|([^:]*)):(\d+)$/.exec(text) ?? [];
  const number = Number(end);
  return number >= 1 && number <= 65_535 ? { host: bracketed ?? (plain || '0.0.0.0'), port: number } : undefined;
});

/**
 * Reads the settings. An empty variable counts as absent.
 *
 * @throws SettingsError with a line for each bad value.
 */
export function readSettings(environment: NodeJS.ProcessEnv): Settings {
  const values = readEnvironment(
    environment,
    {
      PETSTORE_LISTEN: address({ default: { host: '0.0.0.0', port: 6742 } }),
      PETSTORE_DATABASE: text({ default: 'petstore.db' }),
      PETSTORE_HTTP_PORT: port({ default: 8080 }),
      PETSTORE_REQUEST_IDS_KEPT_HOURS: amount('hours', 8760)({ default: 24 }),
      PETSTORE_TLS_CERT_FILE: text({ default: undefined }),
      PETSTORE_TLS_KEY_FILE: text({ default: undefined }),
      SHUTDOWN_TIMEOUT_SECONDS: seconds({ default: 20 }),
      ENV: text({ default: 'local' }),
      LOG_LEVEL: logLevel({ default: 'info' }),
    },
    SettingsError,
  );
  return {
    listen: values.PETSTORE_LISTEN,
    databasePath: values.PETSTORE_DATABASE,
    httpPort: values.PETSTORE_HTTP_PORT,
    requestIdsKeptHours: values.PETSTORE_REQUEST_IDS_KEPT_HOURS,
    tls: tlsOf(values.PETSTORE_TLS_CERT_FILE, values.PETSTORE_TLS_KEY_FILE),
    shutdownTimeoutSeconds: values.SHUTDOWN_TIMEOUT_SECONDS,
    env: values.ENV,
    logLevel: values.LOG_LEVEL,
  };
}

function tlsOf(certFile: string | undefined, keyFile: string | undefined): Settings['tls'] {
  if (certFile !== undefined && keyFile !== undefined) return { certFile, keyFile };
  if (certFile === undefined && keyFile === undefined) return undefined;
  const [given, missing] = certFile === undefined ? ['KEY', 'CERT'] : ['CERT', 'KEY'];
  throw new SettingsError(
    `PETSTORE_TLS_${missing}_FILE: is absent, takes a path where PETSTORE_TLS_${given}_FILE is set`,
  );
}
