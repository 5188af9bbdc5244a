import type { Figures } from '../measurements.ts';
import { readPlan } from '../plan.ts';
import type { Contender, Results, Round, Turn } from '../results.ts';

/** An undisturbed turn. */
export const turn = (figures: Figures, more: Partial<Turn> = {}): Turn => ({ figures, disturbance: 0, ...more });

export const loadRound = (figures: Partial<Record<Contender, Figures>>): Round => ({
  scenario: 'load',
  turns: Object.fromEntries(Object.entries(figures).map(([name, of]) => [name, turn(of)])),
});

export const resultsOf = (rounds: readonly Round[], more: Partial<Results> = {}): Results => ({
  date: '2026-03-04T05:06:07.000Z',
  machine: '2 × Some <Processor> & more',
  versions: { kubernetes: '1.2.3', node: '26.0.0' },
  plan: readPlan({}),
  rounds,
  voidRounds: [],
  ...more,
});
