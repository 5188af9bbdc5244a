import { controllerOf } from '@echoperator/runtime';
import { type ConditionedObject, TransitionTimes } from './oracles.ts';
import type { Scenario } from './scenario.ts';
import type { Timeline } from './timeline.ts';

/** What must not happen at any time of a run. */
export class Violations {
  readonly #scenario: Scenario;
  readonly #timeline: Timeline;
  readonly #transitionTimes = new TransitionTimes();
  readonly #externalChecks: Promise<void>[] = [];
  #first: Error | undefined;

  constructor(scenario: Scenario, timeline: Timeline) {
    this.#scenario = scenario;
    this.#timeline = timeline;
  }

  /** The first violation, which is likely the cause of any other failure. */
  get first(): Error | undefined {
    return this.#first;
  }

  add(violation: Error): void {
    this.#first ??= violation;
    this.#timeline.note(`failed: ${violation.message}`);
  }

  /** Checks an event of an object. */
  checkEvent(type: string, object: ConditionedObject): void {
    if (this.#scenario.changesDefinitions === true || controllerOf(object) !== undefined) return;
    const wrong = this.#transitionTimes.observe(type, object);
    if (wrong !== undefined) this.add(new Error(wrong));
  }

  /** Begins a check of what is outside of the cluster, after a write there. */
  checkExternal(namespace: string, write: string): void {
    this.#externalChecks.push(this.#checkExternal(namespace, write));
  }

  /** Resolves when the checks that have begun have ended. */
  async checked(): Promise<void> {
    await Promise.all(this.#externalChecks);
  }

  async #checkExternal(namespace: string, write: string): Promise<void> {
    const { external, alwaysExternal } = this.#scenario;
    if (alwaysExternal === undefined || external === undefined) return;
    try {
      const wrong = alwaysExternal(await external(namespace));
      if (wrong !== undefined) this.add(new Error(`${wrong}, since ${write}`));
    } catch (cause) {
      this.add(new Error(`the check after ${write} failed`, { cause }));
    }
  }
}
