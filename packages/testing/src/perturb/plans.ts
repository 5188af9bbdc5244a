import type { Kind } from '@echoperator/runtime';
import { differenceOf, type Facts } from '../facts.ts';
import {
  type ViewPerturbation,
  viewPerturbations,
  type WritePerturbation,
  writePerturbations,
} from './perturbations/by-name.ts';
import type { Scenario } from './scenario.ts';

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

interface PerturbedWrite {
  readonly type: 'write';
  readonly write: LearnedWrite;
  readonly perturbation: WritePerturbation;
}

interface PerturbedView {
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

const namesOf = <Name extends string>(perturbations: Readonly<Record<Name, unknown>>): readonly Name[] =>
  Object.keys(perturbations) as Name[];

export function plansOf(learned: Learned): readonly Plan[] {
  const { scenario, steps } = learned;
  const isPerturbed = ({ name }: LearnedStep): boolean => scenario.perturbedSteps?.includes(name) ?? true;
  return steps.filter(isPerturbed).flatMap((step) => {
    const where = { scenario, isLastStep: step === steps.at(-1) };
    const ofWrites = step.writes.flatMap((write, index) => {
      const name = `${scenario.name}/${step.name} write ${index + 1}`;
      const alias = `${scenario.name}/${step.name} ${textOf(write)}`;
      return namesOf(writePerturbations).flatMap((perturbation): readonly Plan[] => {
        const { appliesTo, mayPreventWrite = false } = writePerturbations[perturbation];
        if (appliesTo?.(write.description, where) === false) return [];
        const mayMiss = scenario.mayOmitWrites === true || write.isVarying || mayPreventWrite;
        const target = { type: 'write', write, perturbation } as const;
        return [{ name: `${name} ${perturbation}`, alias: `${alias} ${perturbation}`, learned, step, target, mayMiss }];
      });
    });
    const ofViews = step.eventKinds.flatMap((kind) =>
      namesOf(viewPerturbations).map((perturbation): Plan => {
        const name = `${scenario.name}/${step.name} ${kind.kind} ${perturbation}`;
        return { name, alias: name, learned, step, target: { type: 'view', kind, perturbation }, mayMiss: false };
      }),
    );
    return [...ofWrites, ...ofViews];
  });
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
