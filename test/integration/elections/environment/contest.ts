import { join } from 'node:path';
import { expect } from '@jest/globals';
import type { LeaseTimings } from '../../../../src/runtime/leader-election/index.ts';
import { canFakeClock, fakeClock } from '../../../../testkit/fake-clock.ts';
import type { Arena } from './arena.ts';
import type { CandidateSettings } from './candidate.ts';
import { clientGo, ours } from './candidate-process.ts';
import { Contestant } from './contestant.ts';
import { accountOf } from './history.ts';
import { judge, type Verdict } from './verdict.ts';

const writeEveryMs = 100;
/** Of an accusation is told what was so long before it and after. */
const evidenceMs = 4_000;

/** How a contestant is entered. */
export interface Entry {
  /** One of a name that begins with `client-go` is on client-go. */
  readonly name: string;
  readonly locks: readonly string[];
  readonly timings: LeaseTimings;
  /** How many of its writes may be on their way at once. */
  readonly connections: number;
}

/** Contestants that meet in an arena, and what becomes of them. They end with it. */
export class Contest implements AsyncDisposable {
  readonly #arena: Arena;
  readonly #contestants: Contestant[] = [];

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  get contestants(): readonly Contestant[] {
    return this.#contestants;
  }

  /** Enters one of ours, or one on client-go, which only elects. Go's programs ask no C library what time it is. */
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
      // One that was frozen until another led would release what that other holds: before it does, client-go reads the
      // Lease, but goes by whom it remembers as the holder (tryRelease).
      command: (server, journal) => clientGo(arena.programs, settings(server, journal), { release: false }),
    });
  }

  /** What there has been so far. */
  async verdict(): Promise<Verdict> {
    const testimonies = await Promise.all(this.#contestants.map((one) => one.testimonies()));
    return judge(await this.#arena.history(), testimonies.flat());
  }

  /** Nobody is accused; or else the evidence is told: the folder that holds it goes with the test. */
  async expectNoViolation(): Promise<Verdict> {
    const verdict = await this.verdict();
    const first = [...Map.groupBy(verdict.violations, ({ lock }) => lock).values()].flatMap(([one]) => one ?? []);
    if (first.length > 0) await this.#tellEvidence(first);
    expect(verdict.violations).toEqual([]);
    return verdict;
  }

  async #tellEvidence(violations: Verdict['violations']): Promise<void> {
    const history = await this.#arena.history();
    const testimonies = (await Promise.all(this.#contestants.map((one) => one.testimonies()))).flat();
    for (const { lock, atMs, what } of violations) {
      const isNear = (at: number) => Math.abs(at - atMs) <= evidenceMs;
      const journals = testimonies
        .flatMap(({ lines }) => lines)
        .filter((line) => isNear(line.at) && (!('lock' in line) || line.lock === lock))
        .map((line) => JSON.stringify({ ...line, at: Math.round(line.at - atMs) }));
      const frozen = testimonies.flatMap((one) =>
        one.frozen.filter(({ from, until }) => isNear(from) || isNear(until)),
      );
      const stops = frozen.map(({ from, until }) => `${Math.round(from - atMs)} to ${Math.round(until - atMs)} ms`);
      const account = accountOf(history, lock, atMs, evidenceMs);
      console.log([what, account, ...journals, `somebody was frozen: ${stops.join(', ')}`].join('\n'));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const one of this.#contestants) await one[Symbol.asyncDispose]();
  }
}
