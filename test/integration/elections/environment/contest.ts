import { join } from 'node:path';
import type { LeaseTimings } from '@echoperator/runtime/leader-election';
import { expect } from '@jest/globals';
import { canFakeClock, fakeClock } from '../../../../testkit/fake-clock.ts';
import type { Arena } from './arena.ts';
import type { CandidateSettings } from './candidate.ts';
import { clientGo, ours } from './candidate-process.ts';
import { Contestant } from './contestant.ts';
import { formatLeaseWrites } from './history.ts';
import { judge, type Verdict } from './verdict.ts';

const writeEveryMs = 100;
/** The report of a violation covers this time before and after it. */
const reportMs = 4_000;

/** The settings of a contestant. */
export interface Entry {
  /** A name that begins with `client-go` makes it a candidate on client-go. */
  readonly name: string;
  readonly locks: readonly string[];
  readonly timings: LeaseTimings;
  /** How many of its writes may be in flight. */
  readonly connections: number;
}

/** Contestants on one arena, and the verdict on them. Disposing the contest ends them. */
export class Contest implements AsyncDisposable {
  readonly #arena: Arena;
  readonly #contestants: Contestant[] = [];

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  get contestants(): readonly Contestant[] {
    return this.#contestants;
  }

  /**
   * Starts a contestant. One on client-go writes no ledger, and has no fake clock because Go does not use libc for
   * time.
   */
  async enter({ name, locks, timings, connections }: Entry): Promise<Contestant> {
    const settings = (server: string, journal: string): CandidateSettings => {
      return { server, name, journal, locks, timings, writeEveryMs, connections };
    };
    const contestant = await (name.startsWith('client-go')
      ? this.#onClientGo(name, settings)
      : this.#ours(name, settings));
    this.#contestants.push(contestant);
    return contestant;
  }

  async #ours(name: string, settings: (server: string, journal: string) => CandidateSettings): Promise<Contestant> {
    const arena = this.#arena;
    const clockFile = canFakeClock ? join(arena.folder, `${name}.clock`) : undefined;
    const clock = clockFile === undefined ? {} : await fakeClock(clockFile);
    return Contestant.enter({
      name,
      arena,
      command: (server, journal) => ours(arena.programs, settings(server, journal), clock),
      ...(clockFile !== undefined && { clockFile }),
    });
  }

  #onClientGo(name: string, settings: (server: string, journal: string) => CandidateSettings): Promise<Contestant> {
    const arena = this.#arena;
    return Contestant.enter({
      name,
      arena,
      // A frozen client-go candidate would release its successor's Lease when it wakes: it reads the Lease before it
      // releases it, but trusts the holder that it remembers (tryRelease).
      command: (server, journal) => clientGo(arena.programs, settings(server, journal), { release: false }),
    });
  }

  /** The verdict so far. */
  async verdict(): Promise<Verdict> {
    const records = await Promise.all(this.#contestants.map((one) => one.records()));
    return judge(await this.#arena.history(), records.flat());
  }

  /**
   * Expects no violation. It prints the evidence for each one, because the folder of the journals is deleted after the
   * test.
   */
  async expectNoViolation(): Promise<Verdict> {
    const verdict = await this.verdict();
    const first = [...Map.groupBy(verdict.violations, ({ lock }) => lock).values()].flatMap(([one]) => one ?? []);
    if (first.length > 0) await this.#printEvidence(first);
    expect(verdict.violations).toEqual([]);
    return verdict;
  }

  async #printEvidence(violations: Verdict['violations']): Promise<void> {
    const history = await this.#arena.history();
    const records = (await Promise.all(this.#contestants.map((one) => one.records()))).flat();
    for (const { lock, atMs, what } of violations) {
      const isNear = (at: number) => Math.abs(at - atMs) <= reportMs;
      const journals = records
        .flatMap(({ lines }) => lines)
        .filter((line) => isNear(line.at) && (!('lock' in line) || line.lock === lock))
        .map((line) => JSON.stringify({ ...line, at: Math.round(line.at - atMs) }));
      const frozen = records.flatMap((one) => one.frozen.filter(({ from, until }) => isNear(from) || isNear(until)));
      const stops = frozen.map(({ from, until }) => `${Math.round(from - atMs)} to ${Math.round(until - atMs)} ms`);
      const leaseWrites = formatLeaseWrites(history, lock, atMs, reportMs);
      console.log([what, leaseWrites, ...journals, `frozen: ${stops.join(', ')}`].join('\n'));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const one of this.#contestants) await one[Symbol.asyncDispose]();
  }
}
