import { accept, amount, type LogLevel, logLevel, port, readEnvironment, seconds, text } from '@echoperator/settings';

/** The pet store's settings, one per environment variable (docs/pet-store.md). */
export interface Settings {
  /** PETSTORE_LISTEN: the address of the gRPC server. */
  readonly listen: {
    /** Absent: all addresses of this host, IPv6 and IPv4. */
    readonly host: string | undefined;
    readonly port: number;
  };
  /** PETSTORE_DATABASE: the database file. */
  readonly databasePath: string;
  /** PETSTORE_HTTP_PORT: the port of /healthz, /readyz and /metrics. */
  readonly httpPort: number;
  /** PETSTORE_REQUEST_IDS_KEPT_HOURS: how long request ids are remembered. */
  readonly requestIdsKeptHours: number;
  /**
   * PETSTORE_TLS_CERT_FILE, PETSTORE_TLS_KEY_FILE and PETSTORE_TLS_CLIENT_CA_FILE: paths of PEM files. Absent: plain
   * text. Without the third, clients need no certificate.
   */
  readonly tls:
    | { readonly certFile: string; readonly keyFile: string; readonly clientCaFile: string | undefined }
    | undefined;
  /** SHUTDOWN_TIMEOUT_SECONDS: how long requests in flight may take to finish after SIGTERM. */
  readonly shutdownTimeoutSeconds: number;
  /** ENV: the environment's name, which every log line carries. */
  readonly env: string;
  /** LOG_LEVEL */
  readonly logLevel: LogLevel;
}

/** Invalid settings. The message has one line per setting. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
}

const address = accept('an address and a port, as :6742, 0.0.0.0:6742 or [::1]:6742', (text) => {
  const [, bracketed, plain, end = ''] = /^(?:\[([^\]]+)\]|([^:]*)):(\d+)$/.exec(text) ?? [];
  const number = Number(end);
  return number >= 1 && number <= 65_535 ? { host: bracketed ?? (plain || undefined), port: number } : undefined;
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
      PETSTORE_LISTEN: address({ default: { host: undefined, port: 6742 } }),
      PETSTORE_DATABASE: text({ default: 'petstore.db' }),
      PETSTORE_HTTP_PORT: port({ default: 8080 }),
      PETSTORE_REQUEST_IDS_KEPT_HOURS: amount('hours', 8760)({ default: 24 }),
      PETSTORE_TLS_CERT_FILE: text({ default: undefined }),
      PETSTORE_TLS_KEY_FILE: text({ default: undefined }),
      PETSTORE_TLS_CLIENT_CA_FILE: text({ default: undefined }),
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
    tls: tlsOf(values.PETSTORE_TLS_CERT_FILE, values.PETSTORE_TLS_KEY_FILE, values.PETSTORE_TLS_CLIENT_CA_FILE),
    shutdownTimeoutSeconds: values.SHUTDOWN_TIMEOUT_SECONDS,
    env: values.ENV,
    logLevel: values.LOG_LEVEL,
  };
}

function tlsOf(
  certFile: string | undefined,
  keyFile: string | undefined,
  clientCaFile: string | undefined,
): Settings['tls'] {
  if (certFile !== undefined && keyFile !== undefined) return { certFile, keyFile, clientCaFile };
  // Without this check, a forgotten certificate would open the pet store to everybody.
  const given = Object.entries({ CERT: certFile, KEY: keyFile, CLIENT_CA: clientCaFile }).find(([, file]) => file);
  if (given === undefined) return undefined;
  const missing = certFile === undefined ? 'CERT' : 'KEY';
  throw new SettingsError(`PETSTORE_TLS_${missing}_FILE: is missing; PETSTORE_TLS_${given[0]}_FILE needs it`);
}
