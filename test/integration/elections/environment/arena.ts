import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { HttpClient, Lease, Transport } from '../../../../src/runtime/index.ts';
import { ApiServer, eventually } from '../../../../src/runtime/testing/index.ts';
import { programs } from '../../environment/programs.ts';
import { type CandidatePrograms, candidatePrograms } from './candidate-process.ts';
import { auditPolicy, type History, readHistory } from './history.ts';
import { WallClock } from './monotonic.ts';

export const namespace = 'default';

/** Where candidates meet: an API server of their own, whose audit log tells what became of the locks. */
export class Arena implements AsyncDisposable {
  readonly folder: string;
  readonly server: ApiServer;
  /** Sees past all faults. */
  readonly client: HttpClient;
  readonly programs: CandidatePrograms;
  readonly #transport: Transport;
  readonly #clock = new WallClock();
  readonly #closing = new AbortController();
  readonly #comparing = this.#clock.run(this.#closing.signal);

  private constructor(folder: string, server: ApiServer, candidates: CandidatePrograms) {
    this.folder = folder;
    this.server = server;
    this.programs = candidates;
    this.#transport = new Transport(server.connection, { userAgent: 'test' });
    this.client = new HttpClient(this.#transport, 'test');
  }

  static async open(): Promise<Arena> {
    const folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER!, 'elections-'));
    const candidates = await candidatePrograms(folder);
    return new Arena(
      folder,
      await ApiServer.start({ assets: await programs(folder), folder, auditPolicy }),
      candidates,
    );
  }

  /** By the audit log as it is now. */
  history(): Promise<History> {
    return readHistory(this.server.auditLog, this.#clock);
  }

  /** Waits until one with an identity of this beginning holds the lock, and returns the Lease. */
  async heldBy(lock: string, name: string, timeoutMs?: number): Promise<Lease> {
    const look = async () => {
      const lease = await this.client.get(Lease, { namespace, name: lock });
      return lease.spec?.holderIdentity?.startsWith(`${name}_`) && lease;
    };
    return eventually(`${name} holds ${lock}`, async () => (await look()) || false, timeoutMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    await this.#comparing;
    await this.#transport.close();
    await this.server.close();
    await rm(this.folder, { recursive: true });
  }
}
