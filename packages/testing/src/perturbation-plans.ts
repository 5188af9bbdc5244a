import type { Kind } from '@echoperator/runtime';
import { differenceOf, type Facts } from './facts.ts';
import type { Scenario } from './perturbation-scenario.ts';

/**
 * What happens at a write.
 *
 * - `unsent`: the operator crashes before the write is sent.
 * - `reply-lost`: the API server commits the write, and the operator crashes before it has the response.
 * - `replied`: the operator crashes when it has the response.
 * - `past`: the operator crashes when it has the response. The new operator gets the lists as they were before the step, and no events until
 *   it rests, as if the API server's etcd were restored from a backup. Not in scenarios with another system, which has no preconditions
 *   that protect it. The runtime's own lists are consistent reads, to which an API server must not answer so.
 * - `late`: the operator crashes while the write is on its way. The API server gets it when the new operator rests.
 * - `stopped`: the operator leads, and is told to stop. The write is sent. A warm standby takes over.
 * - `cut-off`: the operator leads, and is cut off from the API server. Its Lease expires, and a warm standby takes over. The network
 *   is mended when that one rests; the former leader must not send anything then.
 * - `retried`: the API server commits the write, the response is lost, and the operator goes on.
 * - `stale`: like `retried`, and from the first write of the step on, the operator receives no events for a second.
 * - `overtaken`: before the write arrives, somebody else replaces the child that it changes or deletes by another object of the same
 *   name, or adds a condition and a finalizer to any other object. The operator must leave that alone until it is undone.
 *
 * After a crash, a new operator takes over.
 */
export type WritePerturbation =
  | 'unsent'
  | 'reply-lost'
  | 'replied'
  | 'past'
  | 'late'
  | 'stopped'
  | 'cut-off'
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
  'past',
  'late',
  'stopped',
  'cut-off',
  'retried',
  'stale',
];

const viewPerturbations: readonly ViewPerturbation[] = ['lagging', 'missed'];

/** A write that the operator sent in an undisturbed run. */
export interface LearnedWrite {
  /** For example `patch echos hello/status`. */
  readonly description: string;
  /** Counts the writes of this description in the step, from 1. */
  readonly occurrence: number;
  /** Only some of the undisturbed runs sent it. */
  readonly isVarying: boolean;
}

/** What the undisturbed runs have in common. */
export interface Learned {
  readonly scenario: Scenario;
  readonly steps: readonly LearnedStep[];
  /** How often each object was created and deleted. */
  readonly changes: Facts;
}

interface LearnedStep {
  readonly name: string;
  /** In the order in which the first run sent them; then those that it did not send. */
  readonly writes: readonly LearnedWrite[];
  /** The kinds of which the operator received events in each run. */
  readonly eventKinds: readonly Kind[];
  /** The objects after the step. */
  readonly state: Facts;
}

export interface Plan {
  /** `echo/create write 3 reply-lost`, `echo/update Job lagging` */
  readonly name: string;
  /** Names the write by its description, whatever its number is: `echo/create patch echos hello/status reply-lost`. */
  readonly alias: string;
  readonly learned: Learned;
  readonly step: LearnedStep;
  readonly target: PerturbedWrite | PerturbedView;
  /** Whether a run may end without the write to perturb. */
  readonly mayMiss: boolean;
}

export interface PerturbedWrite {
  readonly type: 'write';
  readonly write: LearnedWrite;
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

/** Returns what is wrong with the objects after the steps of undisturbed runs. */
export function problemOfStates(scenario: Scenario, states: ReadonlyMap<string, Facts>): string | undefined {
  const last = [...states.keys()].at(-1) ?? '';
  const [left] = states.get(last)?.keys() ?? [];
  if (left !== undefined) return `${scenario.name}: the last step, ${last}, must delete everything; left: ${left}`;
  const stateAfter = (step: string): Facts => withoutGenerations(states.get(step) ?? new Map());
  for (const [step, earlier] of Object.entries(scenario.restores ?? {})) {
    const difference = differenceOf(stateAfter(earlier), stateAfter(step));
    if (difference !== undefined)
      return `${scenario.name}/${step} must restore the state after ${earlier}: ${difference}`;
  }
  return undefined;
}

export function plansOf(learned: Learned): readonly Plan[] {
  const { scenario, steps } = learned;
  const isPerturbed = ({ name }: LearnedStep): boolean => scenario.perturbedSteps?.includes(name) ?? true;
  return steps.filter(isPerturbed).flatMap((step) => {
    const ofWrites = step.writes.flatMap((write, index) => {
      const name = `${scenario.name}/${step.name} write ${index + 1}`;
      const alias = `${scenario.name}/${step.name} ${textOf(write)}`;
      return perturbationsOf(write, scenario, step === steps.at(-1)).map((perturbation): Plan => {
        // An operator that sees its objects late may do without a write.
        const mayMiss = scenario.mayOmitWrites === true || write.isVarying || perturbation === 'stale';
        const target = { type: 'write', write, perturbation } as const;
        return { name: `${name} ${perturbation}`, alias: `${alias} ${perturbation}`, learned, step, target, mayMiss };
      });
    });
    const ofViews = step.eventKinds.flatMap((kind) =>
      viewPerturbations.map((perturbation): Plan => {
        const name = `${scenario.name}/${step.name} ${kind.kind} ${perturbation}`;
        return { name, alias: name, learned, step, target: { type: 'view', kind, perturbation }, mayMiss: false };
      }),
    );
    return [...ofWrites, ...ofViews];
  });
}

function perturbationsOf(
  { description }: LearnedWrite,
  { kinds, outside, changesDefinitions = false }: Scenario,
  isLastStep: boolean,
): readonly WritePerturbation[] {
  const [verb = '', resource] = description.split(' ');
  // In the last step the operator may well keep a child that somebody else uses.
  const overtakable = isLastStep ? kinds.slice(0, 1) : kinds;
  const mayBeOvertaken =
    ['patch', 'update', 'delete'].includes(verb) && overtakable.some(({ plural }) => plural === resource);
  return [
    // A write to another system has no precondition that fails in the past.
    ...writePerturbations.filter(
      (perturbation) => perturbation !== 'past' || (outside === undefined && !changesDefinitions),
    ),
    ...(mayBeOvertaken && !changesDefinitions ? (['overtaken'] as const) : []),
  ];
}

/** `patch echos hello/status`; `patch echos hello/status #2` for the second one of a step. */
export const textOf = ({ description, occurrence }: LearnedWrite): string =>
  occurrence === 1 ? description : `${description} #${occurrence}`;

/** Whether this names the plan, or all plans of its write, its view, its step or its scenario. */
export function isNamed({ name, alias, learned, step, target }: Plan, wanted: string): boolean {
  const { name: scenario } = learned.scenario;
  const withoutPerturbation = [name, alias].map((each) => each.slice(0, -` ${target.perturbation}`.length));
  return [scenario, `${scenario}/${step.name}`, ...withoutPerturbation, name, alias].includes(wanted);
}
