import type { Facts } from '../facts.ts';
import { ChangeCounts } from './oracles.ts';

/** What a run has recorded in each step, to be compared with other runs. */
export class Recording {
  /** The present step; empty before the first one. */
  step = '';
  /** The descriptions of the operator's writes, by step. */
  readonly writes: Map<string, string[]> = new Map();
  /** The objects after each step. */
  readonly states: Map<string, Facts> = new Map();
  /** The kinds of the events that the operator received, by step. */
  readonly eventKinds: Map<string, Set<string>> = new Map();
  readonly changes: ChangeCounts = new ChangeCounts();

  /** Returns how often the step now has this write. */
  addWrite(description: string): number {
    const writes = [...(this.writes.get(this.step) ?? []), description];
    this.writes.set(this.step, writes);
    return writes.filter((write) => write === description).length;
  }

  addEvent(kind: string): void {
    this.eventKinds.set(this.step, (this.eventKinds.get(this.step) ?? new Set()).add(kind));
  }

  setState(state: Facts): void {
    this.states.set(this.step, state);
  }
}
