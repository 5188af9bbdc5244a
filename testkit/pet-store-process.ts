import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { eventually } from './eventually.ts';
import { freePorts } from './free-ports.ts';

const main = join(import.meta.dirname, '../src/petstore/main.ts');

const spawn = (args: readonly string[], env: Readonly<Record<string, string>>) =>
  execa(process.execPath, ['--disable-warning=ExperimentalWarning', main, ...args], { env, reject: false, all: true });

/** The pet store as a process of its own, from its sources, with a file of its own that outlives the process. */
export class PetStoreProcess {
  readonly port: number;
  readonly httpPort: number;
  readonly databasePath: string;
  readonly #settings: Readonly<Record<string, string>>;
  #process: ReturnType<typeof spawn> | undefined;

  private constructor(
    port: number,
    httpPort: number,
    databasePath: string,
    settings: Readonly<Record<string, string>>,
  ) {
    this.port = port;
    this.httpPort = httpPort;
    this.databasePath = databasePath;
    this.#settings = settings;
  }

  /** Starts one on free ports and returns when it serves. Its file is in a folder of its own in `parent`. */
  static async start(
    settings: Readonly<Record<string, string>> = {},
    parent = process.env.INTEGRATION_FOLDER ?? '',
  ): Promise<PetStoreProcess> {
    const [port, httpPort] = await freePorts();
    const folder = await mkdtemp(join(parent, 'pet-store-'));
    const store = new PetStoreProcess(port, httpPort, join(folder, 'pets.db'), settings);
    await store.restart();
    return store;
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** Starts it again, on the same ports and the same file. */
  async restart(): Promise<void> {
    const child = spawn(['serve'], {
      PETSTORE_LISTEN: this.address,
      PETSTORE_HTTP_PORT: String(this.httpPort),
      PETSTORE_DATABASE: this.databasePath,
      ...this.#settings,
    });
    this.#process = child;
    const early = child.then(({ all, exitCode }) => {
      throw new Error(`the pet store ended with ${exitCode} before it served: ${all}`);
    });
    const serving = eventually('the pet store serves', async () => {
      return (await fetch(`http://127.0.0.1:${this.httpPort}/readyz`)).ok;
    });
    await Promise.race([serving, early]).catch((error: unknown) => {
      child.kill('SIGKILL');
      throw error;
    });
    early.catch(() => {});
  }

  /** Ends it; its exit code and what it wrote. */
  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<{ exitCode: number | undefined; output: string }> {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined) return { exitCode: undefined, output: '' };
    child.kill(signal);
    const { exitCode, all } = await child;
    return { exitCode, output: all ?? '' };
  }

  get isRunning(): boolean {
    return this.#process !== undefined;
  }

  async metrics(): Promise<string> {
    return (await fetch(`http://127.0.0.1:${this.httpPort}/metrics`)).text();
  }

  /** Runs a command of its command line against it. */
  command(...args: readonly string[]) {
    return execa(process.execPath, ['--disable-warning=ExperimentalWarning', main, ...args], {
      env: { PETSTORE_ADDRESS: this.address },
      reject: false,
    });
  }
}
