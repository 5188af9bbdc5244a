/** The results of a run, as saved in bench.json. The page is rendered from them. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Figures, Scenario } from './measurements.ts';
import type { OperatorName } from './operators.ts';
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

export interface Results {
  /** The start of the run, in ISO 8601. */
  readonly date: string;
  /** Describes the machine in one line. */
  readonly machine: string;
  /** The versions of everything that took part. */
  readonly versions: Readonly<Record<string, string>>;
  readonly plan: Plan;
  /** The highest rate of the slower of the Go and Rust peers in Echos per second. Absent if neither took part. */
  readonly slowerRate?: number;
  /**
   * How many later commits changed src/ or packages/ when the page was made. Absent if git does not know the measured
   * commit.
   */
  readonly age?: number;
  /** How long the run took. Absent if it was interrupted. */
  readonly minutes?: number;
  readonly rounds: readonly Round[];
  readonly voidRounds: readonly VoidRound[];
  /** How many disturbed rounds were run again instead of being counted. Absent if it was not tried. */
  readonly repeatedRounds?: number;
  /**
   * The date and the versions of the run that measured the kinds with an external system, if that was a separate run.
   */
  readonly outside?: Pick<Results, 'date' | 'versions'>;
}

const fileIn = (folder: string): string => join(folder, 'bench.json');

export async function writeResults(results: Results, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(fileIn(folder), `${JSON.stringify(results)}\n`);
}

export async function readResults(folder: string): Promise<Results> {
  return JSON.parse(await readFile(fileIn(folder), 'utf8')) as Results;
}
