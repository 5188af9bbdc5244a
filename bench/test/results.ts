import type { Figures } from '../measurements.ts';
import { readPlan } from '../plan.ts';
import type { Contender, PartRun, Results, Round, Turn } from '../results.ts';

/** An undisturbed turn. */
export const turn = (figures: Figures, more: Partial<Turn> = {}): Turn => ({ figures, disturbance: 0, ...more });

export const loadRound = (figures: Partial<Record<Contender, Figures>>): Round => ({
  scenario: 'load',
  turns: Object.fromEntries(Object.entries(figures).map(([name, of]) => [name, turn(of)])),
});

export const run = (versions: PartRun['versions'] = {}, more: Partial<PartRun> = {}): PartRun => ({
  date: '2026-03-04T05:06:07.000Z',
  machine: '2 × Some <Processor> & more',
  versions: { kubernetes: '1.2.3', node: '26.0.0', ...versions },
  ...more,
});

export const resultsOf = (rounds: readonly Round[], more: Partial<Results> = {}): Results => ({
  parts: { burst: run() },
  plan: readPlan({}),
  rounds,
  voidRounds: [],
  ...more,
});
