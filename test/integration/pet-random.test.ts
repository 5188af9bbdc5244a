import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Pet } from '../../src/api/index.ts';
import type { InjectedFault } from '../../src/runtime/testing/index.ts';
import type { OperatorProcess } from '../../testkit/operator-process.ts';
import { PetStoreProcess } from '../../testkit/pet-store-process.ts';
import { PetWorld } from './environment/pet-world.ts';

/** `PETS_SEED` repeats a run; `PETS_MINUTES` makes it a long one. */
const { PETS_SEED, PETS_MINUTES } = process.env;
const seed = PETS_SEED === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(PETS_SEED);
const timeLimitMs = PETS_MINUTES === undefined ? 45_000 : Number(PETS_MINUTES) * 60_000;

let store: PetStoreProcess;
let world: PetWorld;
/** Undefined from its kill until it is started again. */
let operator: OperatorProcess | undefined;
let kills = 0;
/** Rejects when an operator ends that nobody has killed. */
const unasked = Promise.withResolvers<never>();
unasked.promise.catch(() => {});
const armed: InjectedFault[] = [];

beforeAll(async () => {
  store = await PetStoreProcess.start();
  world = await PetWorld.start(store.port);
  operator = await started();
});

afterAll(async () => {
  await kill();
  await world?.[Symbol.asyncDispose]();
  await store?.stop();
});

/** Few names, so that the same Pet meets many things; few kinds of pets, so that many are alike. */
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
  /** At the request of that number from now on, to the API server or to the store. */
  | { readonly type: 'kill the operator'; readonly at: number; readonly of: 'api' | 'store' };

const of = <T extends Step['type']>(...types: readonly T[]) => fc.constantFrom(...types);
const method = fc.constantFrom('AddPets', 'UpdatePets', 'DeletePets', 'SearchPets');
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ type: of('apply'), name, spec: specs }) },
  { weight: 3, arbitrary: fc.record({ type: of('delete', 'delete in the store', 'change in the store'), name }) },
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
);

/** Kills the operator at its request of that number from now on. The proxies count: there is no hook in the product. */
function killAt(at: number, of: 'api' | 'store'): void {
  let left = at;
  const counted = (): boolean => {
    left -= 1;
    if (left === 0) void kill();
    return false;
  };
  if (of === 'store') world.store.onCall = () => void counted();
  else armed.push(world.api.inject({ type: 'lost-reply' }, { on: counted }));
}

/** Kills that have not come are not to come any more. */
function disarm(): void {
  world.store.onCall = () => {};
  for (const counting of armed.splice(0)) counting.off();
}

async function kill(): Promise<void> {
  const victim = operator;
  operator = undefined;
  if (victim === undefined) return;
  kills += 1;
  await victim.stop('SIGKILL');
}

async function started(): Promise<OperatorProcess> {
  const running = await world.operator();
  void running.ended.then(({ exitCode, output }) => {
    if (operator === running) unasked.reject(new Error(`the operator ended with ${exitCode}: ${output}`));
  });
  return running;
}

/** @throws Error with what the operator wrote, if there are other pets in the end. */
async function settled(): Promise<void> {
  try {
    await Promise.race([world.settled(), unasked.promise]);
  } catch (cause) {
    const running = operator;
    operator = undefined;
    const { output } = (await running?.stop()) ?? { output: 'it has ended' };
    throw new Error(`the operator wrote: ${output}`, { cause });
  }
}

async function take(step: Step): Promise<void> {
  const id = async (name: string) => ((await world.isGone(name)) ? undefined : (await world.get(name)).status?.id);
  switch (step.type) {
    case 'apply':
      // One on its way out cannot be changed into one that stays.
      await world.apply(step.name, step.spec);
      break;
    case 'delete':
      await world.remove(step.name);
      break;
    case 'delete in the store':
    case 'change in the store': {
      const pet = await id(step.name);
      if (pet === undefined || !store.isRunning) break;
      if (step.type === 'delete in the store') await world.pets.delete([pet]);
      else {
        await world.pets
          .update({ id: pet, name: 'Changed', type: 'bird', birthday: '2000-01-01' })
          // It was replaced at the same moment.
          .catch(() => {});
      }
      break;
    }
    case 'lose answers':
    case 'lose requests':
      world.store.inject(step.type === 'lose answers' ? 'answer lost' : 'not sent', step.method, step.count);
      break;
    case 'cut connections':
      world.store.cut();
      break;
    case 'stop the store':
    case 'kill the store':
      await store.stop(step.type === 'stop the store' ? 'SIGTERM' : 'SIGKILL');
      break;
    case 'start the store':
      if (!store.isRunning) await store.restart();
      break;
    case 'kill the operator':
      killAt(step.at, step.of);
      break;
  }
  operator ??= await started();
}

test(
  'whatever happens, in the end there is a pet for each Pet, and no other',
  async () => {
    console.log(`Pets at random: PETS_SEED=${seed}`);
    const deadlineMs = performance.now() + timeLimitMs;
    let runs = 0;
    const survives = fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 25 }), async (steps) => {
      // Not fast-check's own limit: what that interrupts goes on behind the test's back.
      if (performance.now() > deadlineMs) return;
      runs += 1;
      for (const each of steps) {
        await take(each);
        await delay(Math.random() * 50);
      }
      world.store.clear();
      disarm();
      if (!store.isRunning) await store.restart();
      operator ??= await started();
      await settled();
    });
    await fc.assert(survives, {
      seed,
      numRuns: PETS_MINUTES === undefined ? 15 : 10_000,
      endOnFailure: true,
    });
    console.log(`${runs} runs, in which the operator was killed ${kills} times`);
    expect(kills).toBeGreaterThan(0);
  },
  timeLimitMs + 300_000,
);
