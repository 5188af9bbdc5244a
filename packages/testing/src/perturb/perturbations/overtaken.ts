import type { InjectedFault } from '../../fault.ts';
import { type Overtaking, overtake } from '../../overtaking.ts';
import type { ProxiedRequest } from '../../proxied-request.ts';
import type { RunningOperator } from '../operator.ts';
import type { Check, Perturbation, PerturbedRun, WhereWritten } from './perturbation.ts';

/**
 * Before the write arrives, somebody else replaces the child that it changes or deletes by another object of the same
 * name, or adds a condition and a finalizer to any other object. The operator must leave that alone until it is undone.
 */
export class Overtaken implements Perturbation {
  static appliesTo(write: string, { scenario, isLastStep }: WhereWritten): boolean {
    const { kinds, changesDefinitions } = scenario;
    const [verb = '', resource] = write.split(' ');
    // In the last step the operator may well keep a child that somebody else uses.
    const overtakable = isLastStep ? kinds.slice(0, 1) : kinds;
    return (
      changesDefinitions !== true &&
      ['patch', 'update', 'delete'].includes(verb) &&
      overtakable.some(({ plural }) => plural === resource)
    );
  }

  readonly #run: PerturbedRun;
  #fault: InjectedFault | undefined;
  #overtaking: Overtaking | undefined;
  #isUndone = false;

  constructor(run: PerturbedRun) {
    this.#run = run;
  }

  get isHit(): boolean {
    return this.#overtaking !== undefined;
  }

  /** The operator creates a replaced child again. */
  get unchecked(): readonly Check[] {
    return this.#overtaking?.type === 'replaced' ? ['changes', 'generations'] : [];
  }

  onPlannedWrite(request: ProxiedRequest, { proxy }: RunningOperator): void {
    const fail = (cause: unknown): void =>
      this.#run.fail(new Error('an object was not edited or replaced before the write arrived', { cause }));
    this.#fault = proxy.inject(
      { type: 'delayed', until: () => this.#overtake(request).catch(fail) },
      { on: (each) => each === request },
    );
  }

  /** Undoes what somebody else did. @throws Error if the operator has changed it */
  async onIdle(): Promise<void> {
    if (this.#overtaking === undefined || this.#isUndone) return;
    await this.#overtaking.check();
    this.#isUndone = true;
    await this.#overtaking.undo();
    this.#run.noteActivity();
    this.#run.note('what somebody else did is undone');
  }

  afterPlannedStep(): void {
    this.#fault?.off();
  }

  async #overtake({ resource, name }: ProxiedRequest): Promise<void> {
    const { scenario, world } = this.#run;
    const kind = scenario.kinds.find(({ plural }) => plural === resource);
    if (kind === undefined) return;
    this.#overtaking = await overtake(world.client, kind, { namespace: world.namespace, name });
    this.#run.note(`${kind.kind} ${name} is ${this.#overtaking?.type ?? 'gone'}`);
  }
}
