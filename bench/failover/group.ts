import { join } from 'node:path';
import { type ApiServer, namespace } from '../api-server.ts';
import { RunningOperator, syncedMark } from '../running-operator.ts';
import type { Electing, LeaseKey, Standby } from './elections.ts';

/** One process of a group. */
export interface Candidate {
  /** The user in the audit log. */
  readonly name: string;
  readonly running: RunningOperator;
  readonly log: string;
}

/** Processes of one operator that contend for one Lease. Each has its own service account. */
export class Group {
  readonly #who: Electing;
  readonly #standby: Standby;
  readonly #server: ApiServer;
  /** The folder of the logs. */
  readonly #folder: string;
  readonly #lease: LeaseKey;
  readonly #candidates: Candidate[] = [];

  constructor(who: Electing, standby: Standby, server: ApiServer, folder: string) {
    this.#who = who;
    this.#standby = standby;
    this.#server = server;
    this.#folder = folder;
    this.#lease = { namespace, name: `${who.operator.name}-${standby}` };
  }

  /** The names of all candidates since the start. */
  get names(): readonly string[] {
    return this.#candidates.map(({ name }) => name);
  }

  /** Starts the first candidate. Returns when it leads and its caches have synced. */
  leader(): Promise<Candidate> {
    return this.#start([this.#who.election.leads, syncedMark]);
  }

  /** Starts another candidate. Returns when it stands by; a warm standby's caches have synced. */
  another(): Promise<Candidate> {
    const { contends } = this.#who.election;
    return this.#start(this.#standby === 'warm' ? [contends, syncedMark] : [contends]);
  }

  /** Stops all candidates. */
  async stop(): Promise<void> {
    await Promise.all(this.#candidates.map(({ running }) => running.stop()));
  }

  async #start(marks: readonly string[]): Promise<Candidate> {
    const { operator, election } = this.#who;
    const account = `${this.#standby}-${this.#candidates.length}`;
    const { host, port } = this.#server;
    const serviceAccount = await this.#server.serviceAccountNamed(account);
    const log = join(this.#folder, `${operator.name}-${account}.log`);
    const environment = election.environment(this.#lease, this.#standby);
    const running = await RunningOperator.start(operator, { host, port, serviceAccount }, log, { environment, marks });
    const candidate = { name: `system:serviceaccount:${namespace}:${account}`, running, log };
    this.#candidates.push(candidate);
    return candidate;
  }
}
