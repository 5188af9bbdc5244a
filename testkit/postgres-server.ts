import { chown, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { Client } from 'pg';
import { ensureDebianPackages } from '../tools/debian.ts';
import { certificate, certificateKey } from './certificate.ts';
import { eventually } from './eventually.ts';
import { freePorts } from './free-ports.ts';

/** PostgreSQL refuses to run as root, so root runs it as `nobody`. */
const nobody = 65_534;
const isRoot = process.getuid?.() === 0;

const prefix = 'echoperator-postgres-';

const superuser = { user: 'postgres', password: 'of the superuser' } as const;

/** A line of pg_hba.conf: every user may connect with a password, with TLS or without. */
const byPassword = 'host all all 127.0.0.1/32 scram-sha-256\n';

const settings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  shared_preload_libraries: 'pg_stat_statements',
  'pg_stat_statements.track': 'top',
  'pg_stat_statements.track_planning': 'on',
  fsync: 'off',
  max_connections: '200',
  logging_collector: 'off',
  // In the data folder instead of /dev/shm, where a killed server leaves it behind.
  dynamic_shared_memory_type: 'mmap',
} as const;

/** A real PostgreSQL on 127.0.0.1. A test can stop it, kill it and start it again on the same port. */
export class PostgresServer implements AsyncDisposable {
  readonly host = '127.0.0.1';
  readonly port: number;
  /** The path of the certificate to trust. */
  readonly caFile: string;
  readonly #programs: string;
  readonly #data: string;
  #process: ReturnType<typeof run> | undefined;
  #tls = true;
  readonly #frozen: number[] = [];

  private constructor(programs: string, data: string, caFile: string, port: number) {
    this.#programs = programs;
    this.#data = data;
    this.caFile = caFile;
    this.port = port;
  }

  /** @param parent of its folder. The user that PostgreSQL runs as must be able to enter it. */
  static async start(parent = tmpdir()): Promise<PostgresServer> {
    const programs = await ensurePostgres();
    await removeLeftovers(parent);
    const home = await mkdtemp(join(parent, `${prefix}${process.pid}-`));
    const data = join(home, 'data');
    const files = { 'server.crt': certificate, 'server.key': certificateKey, password: superuser.password };
    for (const [name, content] of Object.entries(files)) await writeFile(join(home, name), content, { mode: 0o600 });
    if (isRoot)
      for (const path of [home, ...Object.keys(files).map((name) => join(home, name))])
        await chown(path, nobody, nobody);
    await run(join(programs, 'initdb'), [
      ...['--pgdata', data, '--username', superuser.user, '--pwfile', join(home, 'password')],
      ...['--auth', 'scram-sha-256', '--encoding', 'UTF8', '--locale', 'C', '--no-sync'],
    ]);
    const [port] = await freePorts();
    const server = new PostgresServer(programs, data, join(home, 'server.crt'), port);
    await server.allow(byPassword);
    await server.restart();
    const client = await server.connect();
    await client.query('CREATE EXTENSION pg_stat_statements');
    await client.end();
    return server;
  }

  get isRunning(): boolean {
    return this.#process !== undefined;
  }

  /** Starts a stopped server and returns when it accepts connections. */
  async restart(): Promise<void> {
    const { port } = this;
    const home = join(this.#data, '..');
    const ssl = this.#tls ? 'on' : 'off';
    const options = {
      ...settings,
      ssl,
      port,
      ssl_cert_file: join(home, 'server.crt'),
      ssl_key_file: join(home, 'server.key'),
    };
    const flags = Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    // For a moment, processes of a killed server may still hold its shared memory, and the start fails.
    await eventually('PostgreSQL starts', async () => {
      const child = run(join(this.#programs, 'postgres'), ['-D', this.#data, ...flags]);
      const ended = child.then(
        ({ all }) => `it exited: ${all}`,
        (error: unknown) => `it exited: ${error}`,
      );
      let hasEnded = false;
      const ready = eventually('PostgreSQL accepts connections', async () => {
        if (hasEnded) return 'too late';
        await (await this.connect()).end();
        return 'ready';
      });
      ready.catch(() => {});
      const outcome = await Promise.race([ready, ended]);
      hasEnded = true;
      if (outcome !== 'ready') throw new Error(outcome);
      this.#process = child;
      return true;
    });
  }

  /** Shuts the server down. It sends each client a message first. */
  async stop(): Promise<void> {
    await this.#end('SIGINT');
  }

  /** Ends the server without notice, like a power failure. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** Suspends all processes of the server, like a machine that hangs. Connections stay open. */
  async freeze(): Promise<void> {
    const pid = this.#process?.pid;
    if (pid === undefined) return;
    const client = await this.connect();
    this.#frozen.push(pid);
    process.kill(pid, 'SIGSTOP');
    const { rows } = await client.query<{ readonly pid: number }>(
      'SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()',
    );
    await client.end();
    for (const { pid: each } of rows) {
      process.kill(each, 'SIGSTOP');
      this.#frozen.push(each);
    }
  }

  /** Undoes {@link freeze}. */
  thaw(): void {
    for (const pid of this.#frozen.splice(0)) process.kill(pid, 'SIGCONT');
  }

  /** Sets the lines of pg_hba.conf, after a line that always admits the superuser. */
  async allow(lines: string): Promise<void> {
    const own = `host all ${superuser.user} 127.0.0.1/32 scram-sha-256\n`;
    const file = join(this.#data, 'pg_hba.conf');
    await writeFile(file, own + lines, { mode: 0o600 });
    if (isRoot) await chown(file, nobody, nobody);
    if (this.#process !== undefined) await this.query('SELECT pg_reload_conf()');
  }

  /** Switches TLS on or off, with a restart. */
  async setTls(on: boolean): Promise<void> {
    this.#tls = on;
    await this.stop();
    await this.restart();
  }

  /** Connects as the superuser. The caller ends the connection. */
  async connect(database = 'postgres'): Promise<Client> {
    const { host, port } = this;
    // A query that waits for a lock that nobody releases fails, and says so, before the test's time is over.
    const client = new Client({ ...superuser, host, port, database, ssl: false, query_timeout: 60_000 });
    client.on('error', () => {});
    await client.connect();
    return client;
  }

  /** Runs a query as the superuser and returns its rows. */
  async query<R extends object = Record<string, unknown>>(text: string, database?: string): Promise<readonly R[]> {
    const client = await this.connect(database);
    try {
      return (await client.query<R>(text)).rows;
    } finally {
      await client.end();
    }
  }

  /** Stops the server and removes its data. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.thaw();
    await this.stop();
    await rm(join(this.#data, '..'), { recursive: true, force: true });
  }

  async #end(signal: 'SIGINT' | 'SIGKILL'): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined) return;
    child.kill(signal);
    await child.catch(() => {});
  }
}

/** Removes the folders of killed test runs. Their servers ended with them. */
async function removeLeftovers(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    if (!name.startsWith(prefix)) continue;
    const pid = Number(name.slice(prefix.length).split('-')[0]);
    if (pid > 0 && !isAlive(pid)) await rm(join(parent, name), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Runs a program as the user of the database. The program ends with this process. */
function run(program: string, args: readonly string[]) {
  const launcher = [
    '--pdeathsig',
    'KILL',
    ...(isRoot ? [`--reuid=${nobody}`, `--regid=${nobody}`, '--clear-groups'] : []),
  ];
  const env = { LC_ALL: 'C', PATH: process.env.PATH ?? '' };
  const options = { env, extendEnv: false, all: true, cwd: '/' } as const;
  return process.platform === 'linux'
    ? execa('setpriv', [...launcher, '--', program, ...args], options)
    : execa(program, args, options);
}

/** Returns the folder of the newest PostgreSQL programs. Installs Debian's package if there are none. */
export async function ensurePostgres(): Promise<string> {
  const found = (await debianVersions()) ?? (await onPath());
  if (found !== undefined) return found;
  await ensureDebianPackages(['postgresql']);
  const installed = await debianVersions();
  if (installed === undefined)
    throw new Error('the package postgresql is installed, but /usr/lib/postgresql contains no version');
  return installed;
}

const debianFolder = '/usr/lib/postgresql';

async function debianVersions(): Promise<string | undefined> {
  const versions = (await readdir(debianFolder).catch(() => [])).map(Number).filter((version) => version >= 14);
  const newest = versions.sort((a, b) => b - a)[0];
  return newest === undefined ? undefined : join(debianFolder, String(newest), 'bin');
}

async function onPath(): Promise<string | undefined> {
  const { stdout, failed } = await execa('pg_config', ['--bindir'], { reject: false });
  return failed || !stdout ? undefined : stdout;
}

/** Returns the number of a role's connections. */
export async function connectionsOf(server: PostgresServer, role: string): Promise<number> {
  const [row] = await server.query<{ readonly count: string }>(
    `SELECT count(*) FROM pg_stat_activity WHERE usename = '${role}'`,
  );
  return Number(row?.count);
}
