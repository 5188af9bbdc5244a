import type { Kind } from '../kind/index.ts';
import type { Facts } from './facts.ts';
import type { Scenario } from './perturbation-scenario.ts';

/**
 * What happens at a write.
 *
 * - `unsent`: the operator crashes before the write is sent.
 * - `reply-lost`: the API server commits the write, and the operator crashes before it has the reply.
 * - `replied`: the operator crashes when it has the reply.
 * - `late`: the operator crashes while the write is on its way. The API server gets it when the new operator rests.
 * - `stopped`: the operator is told to stop, as at the end of its leadership. The write is sent.
 * - `retried`: the API server commits the write, the reply is lost, and the operator goes on.
 * - `stale`: like `retried`, and from the first write of the step on, the operator receives no events for a second.
 * - `overtaken`: before the write arrives, somebody else replaces the child that it changes or deletes by another object of the same
 *   name, or adds a condition and a finalizer to any other object. The operator must leave that alone until it is undone.
 *
 * After a crash or a stop, a new operator takes over.
 */
export type WritePerturbation =
  | 'unsent'
  | 'reply-lost'
  | 'replied'
  | 'late'
  | 'stopped'
  | 'retried'
  | 'stale'
  | 'overtaken';

/**
 * What happens to the operator's view of a kind in a step.
 *
 * - `lagging`: the watch delivers nothing until the operator rests, as from an API server whose cache lags.
 * - `missed`: as before, but then the operator lists again: it never sees what happened in between.
 */
export type ViewPerturbation = 'lagging' | 'missed';

const writePerturbations: readonly WritePerturbation[] = [
  'unsent',
  'reply-lost',
  'replied',
  'late',
  'stopped',
  'retried',
  'stale',
];

const viewPerturbations: readonly ViewPerturbation[] = ['lagging', 'missed'];

/** What the undisturbed runs have in common. */
export interface Learned {
  readonly scenario: Scenario;
  /** By step, in the order in which the first run sent them. */
  readonly writes: ReadonlyMap<string, readonly string[]>;
  /** How many writes only some of the runs sent. No plan perturbs them. */
  readonly varyingWrites: number;
  /** By step. */
  readonly states: ReadonlyMap<string, Facts>;
  /** How often each object was created and deleted. */
  readonly changes: Facts;
}

export interface Plan {
  /** `echo/create write 3 reply-lost`, `echo/update Job lagging` */
  readonly name: string;
  readonly learned: Learned;
  readonly step: string;
  readonly target: PerturbedWrite | PerturbedView;
}

export interface PerturbedWrite {
  readonly type: 'write';
  /** For example `patch echos hello/status`. */
  readonly description: string;
  /** Counts the writes of this description in the step, from 1. */
  readonly occurrence: number;
  readonly perturbation: WritePerturbation;
}

export interface PerturbedView {
  readonly type: 'view';
  readonly kind: Kind;
  readonly perturbation: ViewPerturbation;
}

const generations = /\.(generation|observedGeneration|annotations\.deployment\.kubernetes\.io\/revision)$/;

export const withoutGenerations = (facts: Facts): Facts =>
  new Map([...facts].filter(([path]) => !generations.test(path)));

export function plansOf(learned: Learned): readonly Plan[] {
  const { scenario } = learned;
  return [...learned.writes].flatMap(([step, writes]) => {
    const named = (target: string, rest: Plan['target']): Plan => {
      return { name: `${scenario.name}/${step} ${target} ${rest.perturbation}`, learned, step, target: rest };
    };
    const ofWrites = writes.flatMap((write, index) => {
      const [description = '', occurrence] = write.split(' #');
      const [verb = '', resource] = description.split(' ');
      const isOfKind = scenario.kinds.some(({ plural }) => plural === resource);
      const mayBeOvertaken = ['patch', 'update', 'delete'].includes(verb) && isOfKind;
      const all = mayBeOvertaken ? [...writePerturbations, 'overtaken' as const] : writePerturbations;
      return all.map((perturbation) => {
        const target = { type: 'write', description, occurrence: Number(occurrence), perturbation } as const;
        return named(`write ${index + 1}`, target);
      });
    });
    const ofViews = scenario.kinds.flatMap((kind) =>
      viewPerturbations.map((perturbation) => named(kind.kind, { type: 'view', kind, perturbation })),
    );
    return [...ofWrites, ...ofViews];
  });
}

export function countWrites(plans: readonly Plan[]): number {
  const writes = plans.filter(({ target }) => target.type === 'write');
  return new Set(writes.map(({ name }) => name.slice(0, name.lastIndexOf(' ')))).size;
}
