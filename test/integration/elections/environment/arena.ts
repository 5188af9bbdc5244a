import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { HttpClient } from '../../../../src/runtime/client/http-client.ts';
import { NoAnswerError } from '../../../../src/runtime/client/index.ts';
import { Transport } from '../../../../src/runtime/client/transport.ts';
import { Lease } from '../../../../src/runtime/leader-election/index.ts';
import { ApiServer, eventually } from '../../../../src/runtime/testing/index.ts';
import { programs } from '../../../../testkit/api-server-programs.ts';
import { freePorts } from '../../../../testkit/free-ports.ts';
import { type CandidatePrograms, candidatePrograms } from './candidate-process.ts';
import { auditPolicy, type History, type LeaseVersion, namespace, readHistory } from './history.ts';
import { WallClock } from './monotonic.ts';

const watchSeconds = 300;

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
  readonly #versions = new Map<string, LeaseVersion[]>();
  readonly #running: Promise<unknown>;

  private constructor(folder: string, server: ApiServer, candidates: CandidatePrograms) {
    this.folder = folder;
    this.server = server;
    this.programs = candidates;
    this.#transport = new Transport(server.connection, { userAgent: 'test' });
    this.client = new HttpClient(this.#transport, 'test');
    this.#running = Promise.all([this.#clock.run(this.#closing.signal), this.#follow(this.#closing.signal)]);
  }

  static async open(): Promise<Arena> {
    const folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER!, 'elections-'));
    const candidates = await candidatePrograms(folder);
    const [port] = await freePorts();
    return new Arena(
      folder,
      await ApiServer.start({ assets: await programs(folder), folder, auditPolicy, port }),
      candidates,
    );
  }

  /** What has become of the locks until now. */
  async history(): Promise<History> {
    const { items } = await this.client.list(Lease, { namespace });
    await eventually('every version of the Leases was seen', async () =>
      items.every(({ metadata: { name, resourceVersion } }) => {
        return Number(resourceVersion) <= (this.#versions.get(name)?.at(-1)?.version ?? 0);
      }),
    );
    return readHistory(this.server.auditLog, this.#versions, this.#clock);
  }

  /** Waits until one with an identity of this beginning holds the lock, and returns the Lease. */
  async heldBy(lock: string, name: string, timeoutMs?: number): Promise<Lease> {
    const look = async () => {
      const lease = await this.client.get(Lease, { namespace, name: lock });
      return lease.spec?.holderIdentity?.startsWith(`${name}_`) && lease;
    };
    return eventually(`${name} holds ${lock}`, async () => (await look()) || false, timeoutMs);
  }

  /** Notes every version of every Lease: none is made before this begins. */
  async #follow(signal: AbortSignal): Promise<void> {
    let resourceVersion: string | undefined;
    while (!signal.aborted) {
      try {
        resourceVersion ??= (await this.client.list(Lease, { namespace, signal })).metadata.resourceVersion;
        const options = { namespace, resourceVersion, timeoutSeconds: watchSeconds, signal };
        for await (const { type, object } of this.client.watch(Lease, options)) {
          resourceVersion = object.metadata.resourceVersion;
          if (type !== 'BOOKMARK') this.#saw(object);
        }
      } catch (error) {
        // It is opened again from where it has come to.
        if (!signal.aborted && !(error instanceof NoAnswerError)) throw error;
      }
    }
  }

  #saw({ metadata: { name, resourceVersion }, spec }: Lease): void {
    const versions = this.#versions.get(name) ?? [];
    this.#versions.set(name, versions);
    versions.push({ version: Number(resourceVersion), holder: spec?.holderIdentity ?? '' });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    await this.#running;
    await this.#transport.close();
    await this.server.close();
    await rm(this.folder, { recursive: true });
  }
}
