import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CredentialsError } from './faults.ts';

/** How the database is reached, from the operator's settings. */
export interface DatabaseSettings {
  readonly host: string;
  readonly port: number;
  readonly dbname: string;
  /** The role. Absent: the file of {@link credentialsDir} has it. */
  readonly user?: string | undefined;
  readonly password?: string | undefined;
  /**
   * A folder with the files `PSQL_USER` and `PSQL_PASSWORD`, as a Secret is mounted. Read anew before each statement; what
   * is in it takes the place of {@link user} and {@link password}.
   */
  readonly credentialsDir?: string | undefined;
  /** `require`: TLS with whoever answers; `verify-full`: with the host's own certificate, of an authority that is trusted. */
  readonly sslmode: 'disable' | 'require' | 'verify-full';
  /** The file of the authorities that are trusted, read anew as the credentials are. Default: those of Node. */
  readonly sslrootcert?: string | undefined;
  /** Connections at the most. */
  readonly poolSize: number;
  /** For how long a connection may take to come about. */
  readonly connectTimeoutSeconds: number;
  /** For how long a statement may run, locks and all. */
  readonly statementTimeoutSeconds: number;
}

/** What may change while the operator runs: a Secret that is renewed. */
export interface Credentials {
  readonly user: string;
  readonly password: string | undefined;
  readonly ca: string | undefined;
}

/** @throws CredentialsError when a file that has to be there cannot be read. */
export async function readCredentials(settings: DatabaseSettings): Promise<Credentials> {
  const { credentialsDir, sslmode, sslrootcert } = settings;
  const inFolder = (name: string): Promise<string | undefined> =>
    credentialsDir === undefined ? Promise.resolve(undefined) : readOptional(join(credentialsDir, name));
  const user = (await inFolder('PSQL_USER')) ?? settings.user;
  const password = (await inFolder('PSQL_PASSWORD')) ?? settings.password;
  if (user === undefined) throw new CredentialsError(`there is no file PSQL_USER in ${credentialsDir}`);
  const ca = sslmode === 'verify-full' && sslrootcert !== undefined ? await readOptional(sslrootcert) : undefined;
  if (ca === undefined && sslmode === 'verify-full' && sslrootcert !== undefined) {
    throw new CredentialsError(`there is no file ${sslrootcert}`);
  }
  return { user, password, ca };
}

/** Without the line feed that many a Secret ends in. */
async function readOptional(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, 'utf8')).replace(/\r?\n$/, '');
  } catch (cause) {
    if (isMissing(cause)) return undefined;
    throw new CredentialsError(`${path} cannot be read`, { cause });
  }
}

const isMissing = (error: unknown): boolean =>
  typeof error === 'object' && error !== null && 'code' in error && error.code === 'ENOENT';
