import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Lease } from '@echoperator/runtime/kinds';
import { FaultProxy } from '@echoperator/testing';
import type { Arena } from './arena.ts';
import type { FaultTarget } from './candidate-faults.ts';
import { type CandidateCommand, CandidateProcess } from './candidate-process.ts';
import { namespace } from './history.ts';
import { readJournal } from './journal.ts';
import { Link } from './link.ts';
import type { ProcessRecord } from './verdict.ts';

/** Options of a {@link Contestant}. */
export interface ContestantOptions {
  readonly name: string;
  readonly arena: Arena;
  /** The command that starts its process, each time. */
  readonly command: (server: string, journal: string) => CandidateCommand;
  /** The file that libfaketime reads. Absent: its clock cannot be changed. */
  readonly clockFile?: string;
}

/** A candidate with its own network, whose process may be restarted. */
export class Contestant implements FaultTarget, AsyncDisposable {
  readonly link: Link;
  readonly proxy: FaultProxy;
  readonly #options: ContestantOptions;
  readonly #processes: CandidateProcess[] = [];

  private constructor(options: ContestantOptions, proxy: FaultProxy, link: Link) {
    this.#options = options;
    this.proxy = proxy;
    this.link = link;
  }

  /** Resolves when it contends. */
  static async enter(options: ContestantOptions): Promise<Contestant> {
    const proxy = await FaultProxy.start({ upstream: options.arena.server.connection });
    const link = await Link.to(Number(proxy.connection.server.port));
    const contestant = new Contestant(options, proxy, link);
    if (options.clockFile !== undefined) await writeFile(options.clockFile, '+0');
    await contestant.start();
    return contestant;
  }

  get clockFile(): string | undefined {
    return this.#options.clockFile;
  }

  async start(): Promise<void> {
    const { name, arena, command } = this.#options;
    const journal = join(arena.folder, `${name}-${this.#processes.length}.jsonl`);
    this.#processes.push(await CandidateProcess.start(command(`http://127.0.0.1:${this.link.port}`, journal)));
  }

  freeze(): void {
    this.#process.freeze();
  }

  thaw(): Promise<boolean> {
    return this.#process.thaw();
  }

  kill(): Promise<void> {
    return this.#process.kill();
  }

  stop(): Promise<void> {
    return this.#process.stop();
  }

  async clockHasMoved(sinceMs: number): Promise<boolean> {
    const lines = await readJournal(this.#process.journal);
    return lines.some(({ type, at }) => type === 'clock' && at >= sinceMs);
  }

  async held(): Promise<readonly string[]> {
    this.#process.mustRun();
    const { items } = await this.#options.arena.client.list(Lease, { namespace });
    const own = items.filter(({ spec }) => spec?.holderIdentity?.startsWith(`${this.#options.name}_`));
    return own.map(({ metadata }) => metadata.name);
  }

  /** The records of all its processes. */
  async records(): Promise<readonly ProcessRecord[]> {
    return Promise.all(
      this.#processes.map(async ({ journal, frozen }) => ({ lines: await readJournal(journal), frozen })),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const one of this.#processes) await one[Symbol.asyncDispose]();
    await this.link[Symbol.asyncDispose]();
    await this.proxy.close();
  }

  get #process(): CandidateProcess {
    return this.#processes.at(-1)!;
  }
}
