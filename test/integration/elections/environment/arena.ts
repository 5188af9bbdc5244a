import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { NoResponseError } from '@echoperator/runtime/client';
import { Lease } from '@echoperator/runtime/kinds';
import { ApiServer } from '@echoperator/testing';
import { HttpClient } from '../../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { apiServerPrograms } from '../../../../testkit/api-server-programs.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { freePorts } from '../../../../testkit/free-ports.ts';
import { type CandidatePrograms, candidatePrograms } from './candidate-process.ts';
import { auditPolicy, type History, type LeaseVersion, namespace, readHistory } from './history.ts';
import { WallClock } from './monotonic.ts';

const watchSeconds = 300;

/** An API server for candidates. Its audit log shows who held each lock. */
export class Arena implements AsyncDisposable {
  readonly folder: string;
  readonly server: ApiServer;
  /** Connected directly, so that no fault affects it. */
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
    this.#running = Promise.all([this.#clock.run(this.#closing.signal), this.#recordVersions(this.#closing.signal)]);
  }

  static async open(): Promise<Arena> {
    const folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER!, 'elections-'));
    const candidates = await candidatePrograms(folder);
    const [port] = await freePorts();
    return new Arena(
      folder,
      await ApiServer.start({ assets: await apiServerPrograms(folder), folder, auditPolicy, port }),
      candidates,
    );
  }

  /** The history of all locks until now. */
  async history(): Promise<History> {
    const { items } = await this.client.list(Lease, { namespace });
    await eventually('every version of the Leases is recorded', async () =>
      items.every(({ metadata: { name, resourceVersion } }) => {
        return Number(resourceVersion) <= (this.#versions.get(name)?.at(-1)?.version ?? 0);
      }),
    );
    // The API server logs a write after it has answered, and after watches have delivered it.
    return eventually('the audit log has every write to a Lease', () =>
      readHistory(this.server.auditLog, this.#versions, this.#clock),
    );
  }

  /** Waits until a candidate of this name holds the lock, and returns the Lease. */
  async heldBy(lock: string, name: string, timeoutMs?: number): Promise<Lease> {
    const readIfHeld = async () => {
      const lease = await this.client.get(Lease, { namespace, name: lock });
      return lease.spec?.holderIdentity?.startsWith(`${name}_`) && lease;
    };
    return eventually(`${name} holds ${lock}`, async () => (await readIfHeld()) || false, timeoutMs);
  }

  /** Records every version of every Lease. It starts before any Lease exists. */
  async #recordVersions(signal: AbortSignal): Promise<void> {
    let resourceVersion: string | undefined;
    while (!signal.aborted) {
      try {
        resourceVersion ??= (await this.client.list(Lease, { namespace, signal })).metadata.resourceVersion;
        const options = { namespace, resourceVersion, timeoutSeconds: watchSeconds, signal };
        for await (const { type, object } of this.client.watch(Lease, options)) {
          resourceVersion = object.metadata.resourceVersion;
          if (type !== 'BOOKMARK') this.#record(object);
        }
      } catch (error) {
        // It is opened again from where it has come to.
        if (!signal.aborted && !(error instanceof NoResponseError)) throw error;
      }
    }
  }

  #record({ metadata: { name, resourceVersion }, spec }: Lease): void {
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
