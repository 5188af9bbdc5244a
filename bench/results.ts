/** The results, as saved in bench.json. The page is rendered from them. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Figures, Scenario } from './measurements.ts';
import type { OperatorName } from './operators.ts';
import { type PartName, parts } from './parts.ts';
import type { Plan } from './plan.ts';

/** An operator, or the bench's own writers, which show the API server's limit. */
export type Contender = OperatorName | 'ceiling';

/** The results of one contender in one round. */
export interface Turn {
  readonly figures: Figures;
  /** The share (0 to 1) of the machine's processor time that other processes used during the measurement. */
  readonly disturbance: number;
  /** The requests per Echo by verb, of each part of the turn. If they differ within a round, the round is void. */
  readonly requests?: Readonly<Record<string, string>>;
  /** The quantiles of the waits in the burst in milliseconds, from 0 to 100 % in even steps. */
  readonly waits?: readonly number[];
}

/** The turns of all contenders that took part in a round. */
export interface Round {
  readonly scenario: Scenario;
  /** How many objects an operator cached: half of them Echos, half Jobs. Absent if the scenario does not vary it. */
  readonly objects?: number;
  readonly turns: Readonly<Partial<Record<Contender, Turn>>>;
}

/** A round that does not count, or another failure, with its reason. */
export interface VoidRound {
  readonly scenario: Scenario | 'restart';
  readonly objects?: number;
  /** The turns before the failure, or all if their requests differ. */
  readonly turns: Round['turns'];
  /**
   * The contender whose turn failed, or whose requests alone differ; absent if the round is void for another reason.
   */
  readonly failed?: Contender;
  readonly reason: string;
}

/** When and with what a part was measured. */
export interface PartRun {
  /** Its start, in ISO 8601. */
  readonly date: string;
  /** How long it took. Absent if it was interrupted, or not recorded. */
  readonly minutes?: number;
  /** Describes the machine in one line. */
  readonly machine: string;
  /** The versions of everything that took part. */
  readonly versions: Readonly<Record<string, string>>;
  /** How many disturbed rounds were run again instead of being counted. Absent if it was not recorded. */
  readonly repeatedRounds?: number;
  /**
   * The highest rate of the slower of the Go and Rust peers in Echos per second. Absent if neither took part in bursts.
   */
  readonly slowerRate?: number;
}

export interface Results {
  /** The parts that were measured. */
  readonly parts: Readonly<Partial<Record<PartName, PartRun>>>;
  readonly plan: Plan;
  /**
   * How many later commits changed src/ or packages/ when the page was made. Absent if git does not know a measured
   * commit.
   */
  readonly age?: number;
  readonly rounds: readonly Round[];
  readonly voidRounds: readonly VoidRound[];
}

/**
 * Returns the results with the run of a part that begins now: without its earlier rounds, and with the new plan's
 * values for it.
 */
export function renewed(results: Results, part: PartName, run: PartRun, plan: Plan): Results {
  const { scenarios, plan: keys } = parts[part];
  const isOther = ({ scenario }: Pick<VoidRound, 'scenario'>): boolean => !scenarios.includes(scenario);
  return {
    ...results,
    parts: { ...results.parts, [part]: run },
    plan: { ...results.plan, ...Object.fromEntries(keys.map((key) => [key, plan[key]])) },
    rounds: results.rounds.filter(isOther),
    voidRounds: results.voidRounds.filter(isOther),
  };
}

const fileIn = (folder: string): string => join(folder, 'bench.json');

export async function writeResults(results: Results, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(fileIn(folder), `${JSON.stringify(results)}\n`);
}

export async function readResults(folder: string): Promise<Results> {
  return JSON.parse(await readFile(fileIn(folder), 'utf8')) as Results;
}
