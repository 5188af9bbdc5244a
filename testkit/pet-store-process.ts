import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { eventually } from './eventually.ts';
import { freePorts } from './free-ports.ts';
import { exitInTime } from './in-time.ts';
import { type ShippedPrograms, startShipped } from './shipped-program.ts';

/** The pet store as a process, run like in its image. Its database file outlives the process. */
export class PetStoreProcess {
  readonly port: number;
  readonly httpPort: number;
  readonly databasePath: string;
  readonly #settings: Readonly<Record<string, string>>;
  readonly #programs: ShippedPrograms | undefined;
  #process: ReturnType<typeof startShipped> | undefined;

  private constructor(
    port: number,
    httpPort: number,
    databasePath: string,
    settings: Readonly<Record<string, string>>,
    programs: ShippedPrograms | undefined,
  ) {
    this.port = port;
    this.httpPort = httpPort;
    this.databasePath = databasePath;
    this.#settings = settings;
    this.#programs = programs;
  }

  /**
   * Starts a pet store on free ports and returns when it is ready. Its database is in a new folder in `parent`.
   *
   * @param programs the bundles. Default: those of jest's global set-up
   */
  static async start(
    settings: Readonly<Record<string, string>> = {},
    parent = process.env.INTEGRATION_FOLDER ?? '',
    programs?: ShippedPrograms,
  ): Promise<PetStoreProcess> {
    const [port, httpPort] = await freePorts();
    const folder = await mkdtemp(join(parent, 'pet-store-'));
    const store = new PetStoreProcess(port, httpPort, join(folder, 'pets.db'), settings, programs);
    await store.restart();
    return store;
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** Starts the process again, with the same ports and database. Returns when it is ready. */
  async restart(): Promise<void> {
    const child = this.#start(['serve'], {
      PETSTORE_LISTEN: this.address,
      PETSTORE_HTTP_PORT: String(this.httpPort),
      PETSTORE_DATABASE: this.databasePath,
      ...this.#settings,
    });
    this.#process = child;
    let hasEnded = false;
    const early = child.then(({ all, exitCode }) => {
      hasEnded = true;
      throw new Error(`the pet store exited with ${exitCode} before it was ready: ${all}`);
    });
    const ready = eventually('the pet store is ready', async () => {
      // The poll ends with the process.
      return hasEnded || (await fetch(`http://127.0.0.1:${this.httpPort}/readyz`)).ok;
    });
    await Promise.race([ready, early]).catch((error: unknown) => {
      child.kill('SIGKILL');
      throw error;
    });
    early.catch(() => {});
  }

  /** Stops the process if it runs. @returns its exit code and its output */
  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<{ exitCode: number | undefined; output: string }> {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined) return { exitCode: undefined, output: '' };
    child.kill(signal);
    const { exitCode, all } = await exitInTime('the pet store', child);
    return { exitCode, output: all ?? '' };
  }

  get isRunning(): boolean {
    return this.#process !== undefined;
  }

  async metrics(): Promise<string> {
    return (await fetch(`http://127.0.0.1:${this.httpPort}/metrics`)).text();
  }

  /** Runs a command of the pet store's command line with this store. */
  command(...args: readonly string[]) {
    return this.#start(args, { PETSTORE_ADDRESS: this.address });
  }

  #start(args: readonly string[], env: Readonly<Record<string, string>>) {
    return startShipped('petstore', args, env, this.#programs);
  }
}
