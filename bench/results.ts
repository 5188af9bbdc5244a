/** What a run has found, as bench.json keeps it: the page is rendered from that, again whenever it is wanted. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { EventCost } from './event-cost/index.ts';
import type { Figures } from './measurements.ts';
import type { OperatorName } from './operators.ts';
import type { Plan } from './plan.ts';

/** An operator; or the bench's own writers, which show what the API server leaves possible. */
export type Contender = OperatorName | 'ceiling';

/** What one contender did in one round. */
export interface Turn {
  readonly figures: Figures;
  /** The share of the machine's processor time that went to others while it was measured, 0 to 1. */
  readonly disturbance: number;
  /** Requests an Echo by verb, of each part of the turn: where they differ within a round, the round is void. */
  readonly requests?: Readonly<Record<string, string>>;
  /** The quantiles of the waits in the burst, in milliseconds: from 0 to 100 % in even steps. */
  readonly waits?: readonly number[];
}

/** One round: the turn of each contender that took part. */
export interface Round {
  readonly scenario: 'load' | 'long burst' | 'cache' | 'handover' | 'crash' | 'idle group' | 'rows' | 'pets';
  readonly turns: Readonly<Partial<Record<Contender, Turn>>>;
}

/** A round that does not count, or something else that went wrong, and why. */
export interface VoidRound {
  readonly scenario: Round['scenario'] | 'restart' | 'cost of an event';
  readonly turns: Round['turns'];
  readonly reason: string;
}

export interface Results {
  /** When the run began, in ISO 8601. */
  readonly date: string;
  /** Of which machine, in one line. */
  readonly machine: string;
  /** Of what took part. */
  readonly versions: Readonly<Record<string, string>>;
  readonly plan: Plan;
  /** Echos a second: 60 % of what the slower of the Go and Rust peers can do; absent where neither took part. */
  readonly busyPerSecond?: number;
  readonly rounds: readonly Round[];
  readonly voidRounds: readonly VoidRound[];
  readonly eventCosts: readonly EventCost[];
  /** When the kinds that live outside were measured, and with which versions, where that was in a run of its own. */
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
