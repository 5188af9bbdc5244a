import { setTimeout as delay } from 'node:timers/promises';
import type { InjectedFault } from '@echoperator/testing';
import { afterAll, beforeAll, test } from '@jest/globals';
import fc from 'fast-check';
import type { Pet } from '../../src/kinds/pet/kind.ts';
import type { OperatorProcess } from '../../testkit/operator-process.ts';
import { PetStoreProcess } from '../../testkit/pet-store-process.ts';
import { nightlyPlan, type RunEffects, runAtRandom } from '../../testkit/random-runs.ts';
import { PetWorld } from './environment/pet-world.ts';

/** Few names, so that each Pet gets many steps, and few specs, so that many pets are equal. */
const names = Array.from({ length: 12 }, (_, index) => `pet-${index}`);
const specs = fc.record<Pet['spec']>({
  name: fc.constantFrom('Thor', 'Tron', "Rob'); DROP TABLE pets;--", '世界'),
  type: fc.constantFrom('dog', 'cat'),
  birthday: fc.constantFrom('2020-01-31T00:00:00Z', '2020-02-01T00:30:00+01:00'),
});
const name = fc.constantFrom(...names);
const count = fc.integer({ min: 1, max: 4 });

type Step =
  | { readonly type: 'apply'; readonly name: string; readonly spec: Pet['spec'] }
  | { readonly type: 'delete' | 'delete in the store' | 'change in the store'; readonly name: string }
  | { readonly type: 'lose answers' | 'lose requests'; readonly method: string; readonly count: number }
  | { readonly type: 'cut connections' | 'stop the store' | 'kill the store' | 'start the store' }
  /** At the `at`-th request from now on to the API server or to the store. */
  | { readonly type: 'kill the operator'; readonly at: number; readonly of: 'api' | 'store' };

const of = <T extends Step['type']>(...types: readonly T[]) => fc.constantFrom(...types);
const method = fc.constantFrom('AddPets', 'UpdatePets', 'DeletePets', 'SearchPets');
const steps: readonly fc.WeightedArbitrary<Step>[] = [
  { weight: 8, arbitrary: fc.record({ type: of('apply'), name, spec: specs }) },
  { weight: 1, arbitrary: fc.record({ type: of('delete'), name }) },
  { weight: 3, arbitrary: fc.record({ type: of('lose answers', 'lose requests'), method, count }) },
  {
    weight: 2,
    arbitrary: fc.record({ type: of('cut connections', 'stop the store', 'kill the store', 'start the store') }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      type: of('kill the operator'),
      at: fc.integer({ min: 1, max: 8 }),
      of: fc.constantFrom('api' as const, 'store' as const),
    }),
  },
];
const drift: fc.WeightedArbitrary<Step> = {
  weight: 2,
  arbitrary: fc.record({ type: of('delete in the store', 'change in the store'), name }),
};

/** A step and the pause after it. */
interface Moment {
  readonly step: Step;
  readonly pauseMs: number;
}

const momentsOf = (...steps: readonly fc.WeightedArbitrary<Step>[]): fc.Arbitrary<readonly Moment[]> =>
  fc.array(fc.record({ step: fc.oneof(...steps), pauseMs: fc.nat({ max: 50 }) }), { minLength: 5, maxLength: 25 });

/** In most runs only the operator changes the store, so events alone must be sufficient. */
const moments = fc.oneof(
  { weight: 2, arbitrary: momentsOf(...steps) },
  { weight: 1, arbitrary: momentsOf(...steps, drift) },
);

/** A pet store, an operator, and what happens to them. */
class RandomPets implements AsyncDisposable {
  readonly #store: PetStoreProcess;
  readonly #world: PetWorld;
  /** Undefined from a kill until the next start. */
  #operator: OperatorProcess | undefined;
  /** Set if an operator exited that the test did not kill. */
  #crash: Error | undefined;
  readonly #armed: InjectedFault[] = [];
  #kills = 0;
  #outages = 0;

  private constructor(store: PetStoreProcess, world: PetWorld) {
    this.#store = store;
    this.#world = world;
  }

  static async start(): Promise<RandomPets> {
    const store = await PetStoreProcess.start();
    try {
      const pets = new RandomPets(store, await PetWorld.start(store.port));
      await pets.#start();
      return pets;
    } catch (error) {
      await store.stop('SIGKILL');
      throw error;
    }
  }

  async run(moments: readonly Moment[]): Promise<RunEffects> {
    const faultsBefore = this.#faults;
    for (const { step, pauseMs } of moments) {
      await this.#take(step);
      await this.#start();
      await delay(pauseMs);
    }
    this.#world.store.clear();
    this.#disarm();
    if (!this.#store.isRunning) await this.#store.restart();
    // An operator detects such changes at its start or after its resync period.
    if (moments.some(({ step }) => isDrift(step))) await this.#stop('SIGTERM');
    await this.#start();
    await this.#world.settled(180_000, () => this.#crash);
    return {
      writes: moments.filter(({ step }) => step.type === 'apply').length,
      faults: this.#faults - faultsBefore,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stop('SIGKILL');
    await this.#world[Symbol.asyncDispose]();
    await this.#store.stop('SIGKILL');
  }

  /** The number of faults so far. */
  get #faults(): number {
    return this.#world.store.faultCount + this.#kills + this.#outages;
  }

  async #start(): Promise<void> {
    if (this.#operator !== undefined) return;
    const operator = await this.#world.operator();
    this.#operator = operator;
    void operator.ended.then(({ exitCode, output }) => {
      if (this.#operator === operator) this.#crash ??= new Error(`the operator ended with ${exitCode}: ${output}`);
    });
  }

  async #stop(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const operator = this.#operator;
    this.#operator = undefined;
    await operator?.stop(signal);
  }

  async #kill(): Promise<void> {
    if (this.#operator === undefined) return;
    this.#kills += 1;
    await this.#stop('SIGKILL');
  }

  /** Kills the operator at its `at`-th request from now on. The proxies count, so the product needs no hook. */
  #killAt(at: number, of: 'api' | 'store'): void {
    let left = at;
    const counted = (): boolean => {
      left -= 1;
      if (left === 0) void this.#kill();
      return false;
    };
    if (of === 'store') this.#world.store.onCall = () => void counted();
    else this.#armed.push(this.#world.api.inject({ type: 'lost-response' }, { on: counted }));
  }

  /** Cancels pending kills. */
  #disarm(): void {
    this.#world.store.onCall = () => {};
    for (const counting of this.#armed.splice(0)) counting.off();
  }

  async #take(step: Step): Promise<void> {
    switch (step.type) {
      case 'apply':
        await this.#world.apply(step.name, step.spec);
        break;
      case 'delete':
        await this.#world.remove(step.name);
        break;
      case 'delete in the store':
      case 'change in the store':
        await this.#drift(step.type, step.name);
        break;
      case 'lose answers':
      case 'lose requests':
        this.#world.store.inject(step.type === 'lose answers' ? 'answer lost' : 'not sent', step.method, step.count);
        break;
      case 'cut connections':
        this.#world.store.cut();
        break;
      case 'stop the store':
      case 'kill the store':
        if (this.#store.isRunning) this.#outages += 1;
        await this.#store.stop(step.type === 'stop the store' ? 'SIGTERM' : 'SIGKILL');
        break;
      case 'start the store':
        if (!this.#store.isRunning) await this.#store.restart();
        break;
      case 'kill the operator':
        this.#killAt(step.at, step.of);
        break;
    }
  }

  async #drift(type: 'delete in the store' | 'change in the store', name: string): Promise<void> {
    const id = (await this.#world.find(name))?.status?.id;
    if (id === undefined || !this.#store.isRunning) return;
    if (type === 'delete in the store') await this.#world.pets.delete([id]);
    else {
      await this.#world.pets
        .update({ id, name: 'Changed', type: 'bird', birthday: '2000-01-01' })
        // The operator may have replaced the pet meanwhile.
        .catch(() => {});
    }
  }
}

const isDrift = ({ type }: Step): boolean => type === 'delete in the store' || type === 'change in the store';

/** `PETS_MINUTES` sets the duration; `PETS_SEED` repeats a run. */
const plan = nightlyPlan('PETS');

let pets: RandomPets;

beforeAll(async () => {
  pets = await RandomPets.start();
});

afterAll(async () => {
  await pets?.[Symbol.asyncDispose]();
});

test(
  'after random steps and faults, there is exactly one pet for each Pet',
  () => runAtRandom(plan, moments, (each) => pets.run(each)),
  plan.timeLimitMs + 500_000,
);
