import { Code, ConnectError } from '@connectrpc/connect';
import type { Client, Logger, ObjectKey, ReadonlyStore } from '@echoperator/runtime';
import type { JsonPatchOperation } from '@echoperator/runtime/client';
import { describe, expect, test } from '@jest/globals';
import { type BareReconciler, reconcilerOf } from '../../../../packages/runtime/src/controller/define-controller.ts';
import { Circuit } from '../../../../src/external/circuit.ts';
import { petController } from '../../../../src/kinds/pet/controller.ts';
import { failureOf, outageOf } from '../../../../src/kinds/pet/errors.ts';
import { Inventory } from '../../../../src/kinds/pet/inventory.ts';
import { type Pet, petFinalizer } from '../../../../src/kinds/pet/kind.ts';
import { PetWriter } from '../../../../src/kinds/pet/pet-writer.ts';
import { type StorePet, tripleOf, wantedPet } from '../../../../src/kinds/pet/store-pet.ts';
import fc from '../../../../testkit/seeded-fast-check.ts';
import { bareEnvironment, petOptions } from './pets.ts';

/** The process has been killed: nothing that it does from now on has an effect. */
class Killed extends Error {}

/**
 * How a request to the API server or to the store ends: not at all (the process is killed before it, or after it), or
 * for its sender (it never arrives, its answer is lost, or it arrives later than its sender is patient; the store
 * cannot do it, or refuses it though it is not about a pet alone: a search).
 */
type Fault = 'killed before' | 'killed after' | 'never sent' | 'answer lost' | 'late' | 'cannot' | 'search refused';

const silent: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => silent };

/** An API server with Pets, a pet store, and an operator whose requests fail as they are told. */
class World {
  readonly pets = new Map<string, Pet>();
  readonly stored = new Map<string, StorePet>();
  readonly #requestIdsKeptMs: number;
  readonly #answers = new Map<string, { readonly id: string; readonly atMs: number }>();
  #late: (() => void)[] = [];
  #nowMs = Date.parse('2026-01-01T00:00:00Z');
  #version = 0;
  #ids = 0;
  /** Of the requests from now on: which one fails, and how. */
  #fault: { left: number; readonly fault: Fault } | undefined;
  #life = { isOver: false };
  readonly #store = {
    get: ({ name }: ObjectKey) => this.pets.get(name),
    list: () => this.pets.values(),
  } as unknown as ReadonlyStore<Pet>;
  #inventory = new Inventory(this.#store);
  #reconciler: BareReconciler;

  /** @param requestIdsKeptMs 0: the store knows nothing of request ids. */
  constructor(requestIdsKeptMs: number) {
    this.#requestIdsKeptMs = requestIdsKeptMs;
    this.#reconciler = this.#started();
  }

  apply(name: string, spec: Pet['spec']): void {
    const before = this.pets.get(name);
    this.#put({
      metadata: {
        name,
        namespace: 'default',
        uid: before?.metadata.uid ?? `uid of ${name} ${this.#version}`,
        resourceVersion: '',
        creationTimestamp: '2026-01-01T00:00:00Z',
        ...before?.metadata,
        generation: (before?.metadata.generation ?? 0) + 1,
      },
      spec,
      ...(before?.status && { status: before.status }),
    });
  }

  remove(name: string): void {
    const pet = this.pets.get(name);
    if (pet === undefined || pet.metadata.deletionTimestamp !== undefined) return;
    const generation = pet.metadata.generation + 1;
    this.#put({ ...pet, metadata: { ...pet.metadata, generation, deletionTimestamp: '2026-01-02T00:00:00Z' } });
  }

  failNext(left: number, fault: Fault): void {
    this.#fault = { left, fault };
  }

  /** What was late arrives. */
  arrive(): void {
    for (const work of this.#late.splice(0)) work();
  }

  async reconcile(...names: readonly string[]): Promise<void> {
    this.#nowMs += 60_000;
    const reconciler = this.#reconciler;
    const client = this.#client(this.#life);
    const signal = new AbortController().signal;
    await Promise.allSettled(
      names.map((name) => reconciler.reconcile({ namespace: 'default', name }, { client, signal, log: silent })),
    );
    if (this.#life.isOver) this.#reconciler = this.#started();
  }

  /** Somebody else adds a pet. */
  addForeign(spec: Pet['spec']): string {
    return this.#added(wantedPet(spec), `foreign ${this.#ids}`);
  }

  /** Reconciles and searches the store until nothing changes. */
  async settle(names: readonly string[]): Promise<void> {
    this.#fault = undefined;
    this.arrive();
    for (let version = -1; version !== this.#version; ) {
      version = this.#version;
      await this.#inventory.compare(this.#all());
      await this.reconcile(...names);
    }
  }

  async *#all() {
    for (const [id, pet] of this.stored) yield { id, ...pet };
  }

  #started(): BareReconciler {
    this.#life = { isOver: false };
    const life = this.#life;
    this.#inventory = new Inventory(this.#store);
    let elapsedMs = 0;
    const circuit = new Circuit({
      system: 'the pet store',
      reasonOf: outageOf,
      isResponse: (error) => failureOf(error) !== undefined,
      log: silent,
      // A probe is always due.
      clock: { elapsedMs: () => (elapsedMs += 1_000_000), now: () => new Date(this.#nowMs) },
    });
    const writer = new PetWriter({
      circuit,
      inventory: this.#inventory,
      namespaces: undefined,
      now: () => new Date(this.#nowMs),
      store: {
        timeoutMs: 10_000,
        remembersRequests: this.#requestIdsKeptMs > 0,
        add: (pet, requestId) => this.#request(life, 'store', () => this.#added(pet, requestId)),
        update: (id, pet) =>
          this.#request(life, 'store', () => {
            if (!this.stored.has(id)) return false;
            this.stored.set(id, fields(pet));
            return true;
          }),
        delete: (id) => this.#request(life, 'store', () => void this.stored.delete(id)),
        find: (pet) =>
          this.#request(life, 'search', () =>
            [...this.stored].filter(([, each]) => tripleOf(each) === tripleOf(pet)).map(([id]) => id),
          ),
      },
    });
    return reconcilerOf(petController(petOptions), {
      ...bareEnvironment,
      store: <C>() => this.#store as unknown as ReadonlyStore<C & Pet>,
      events: { record: () => {} },
      state: () => ({ writer }),
      now: () => new Date(this.#nowMs),
    });
  }

  #added(pet: StorePet, requestId: string): string {
    const before = this.#answers.get(requestId);
    const isKept = before !== undefined && this.#nowMs < before.atMs + this.#requestIdsKeptMs;
    // A store that remembers request ids remembers them at least as long as the pet.
    if (before !== undefined && (isKept || this.stored.has(before.id))) return before.id;
    // Later ids sort first: the ids of a store tell nothing of the order of its pets.
    const id = `pet ${1_000_000 - ++this.#ids}`;
    this.stored.set(id, fields(pet));
    if (this.#requestIdsKeptMs > 0) this.#answers.set(requestId, { id, atMs: this.#nowMs });
    return id;
  }

  #client(life: { readonly isOver: boolean }): Client {
    return {
      patch: (_: unknown, { name = '' }: ObjectKey, { body }: { readonly body: readonly JsonPatchOperation[] }) =>
        this.#request(life, 'api', () => {
          const values = body.map((operation) => ('value' in operation ? operation.value : undefined));
          return this.#changed(name, String(values[0]), (pet) => ({
            ...pet,
            metadata: { ...pet.metadata, finalizers: values[1] as readonly string[] },
          }));
        }),
      mergeStatus: (
        _: unknown,
        { name = '', resourceVersion }: ObjectKey & { readonly resourceVersion: string },
        patch: object,
      ) =>
        this.#request(life, 'api', () =>
          this.#changed(name, resourceVersion, (pet) => ({
            ...pet,
            status: merged(pet.status ?? {}, patch) as NonNullable<Pet['status']>,
          })),
        ),
      list: () =>
        this.#request(life, 'api', () => ({ items: [...this.pets.values()], metadata: { resourceVersion: '' } })),
    } as unknown as Client;
  }

  #changed(name: string, resourceVersion: string, change: (pet: Pet) => Pet): Pet {
    const pet = this.pets.get(name);
    if (pet?.metadata.resourceVersion !== resourceVersion) throw new Error('a conflict');
    return this.#put(change(pet));
  }

  #put(pet: Pet): Pet {
    this.#version += 1;
    const put = { ...pet, metadata: { ...pet.metadata, resourceVersion: String(this.#version) } };
    const { name, deletionTimestamp, finalizers = [] } = put.metadata;
    if (deletionTimestamp !== undefined && finalizers.length === 0) this.pets.delete(name);
    else this.pets.set(name, put);
    return put;
  }

  async #request<T>(life: { isOver: boolean }, to: 'api' | 'store' | 'search', work: () => T): Promise<T> {
    await null;
    if (life.isOver) throw new Killed();
    const fault = this.#struck();
    if (fault === 'killed before' || fault === 'killed after') life.isOver = true;
    if (fault === 'killed after' || fault === 'answer lost' || fault === undefined) {
      const result = work();
      await null;
      if (fault === undefined) return result;
    }
    // To a store that does not know the names of requests nothing may come late: that is the window that is left.
    if (fault === 'late' && to === 'store' && this.#requestIdsKeptMs > hourMs) this.#late.push(() => attempt(work));
    if (life.isOver) throw new Killed();
    if (to === 'api') throw new Error('no answer');
    if (fault === 'cannot') throw new ConnectError('the disk is full', Code.ResourceExhausted);
    if (fault === 'search refused' && to === 'search') throw new ConnectError('no', Code.InvalidArgument);
    throw new ConnectError('no answer', Code.Unavailable);
  }

  #struck(): Fault | undefined {
    if (this.#fault === undefined) return undefined;
    this.#fault.left -= 1;
    if (this.#fault.left > 0) return undefined;
    const { fault } = this.#fault;
    this.#fault = undefined;
    return fault;
  }
}

const hourMs = 3_600_000;

/** RFC 7386. */
function merged(target: object, patch: object): object {
  const result: Record<string, unknown> = { ...target };
  for (const [name, value] of Object.entries(patch)) {
    const before = result[name];
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    if (value === null) delete result[name];
    else result[name] = isObject ? merged(typeof before === 'object' && before !== null ? before : {}, value) : value;
  }
  return result;
}

const fields = ({ name, type, birthday }: StorePet): StorePet => ({ name, type, birthday });

function attempt(work: () => unknown): void {
  try {
    work();
  } catch {
    // Nobody waits for it any more.
  }
}

const thor: Pet['spec'] = { name: 'Thor', type: 'dog', birthday: '2021-04-01T00:00:00Z' };
const names = ['a', 'b', 'c'] as const;
const name = fc.constantFrom(...names);
const spec = fc.record<Pet['spec']>({
  name: fc.constantFrom('Thor', 'Tron'),
  type: fc.constant('dog'),
  birthday: fc.constant('2021-04-01T00:00:00Z'),
});
const faults = [
  'killed before',
  'killed after',
  'never sent',
  'answer lost',
  'late',
  'cannot',
  'search refused',
] as const;

type Step =
  | { readonly type: 'apply'; readonly name: string; readonly spec: Pet['spec'] }
  | { readonly type: 'remove'; readonly name: string }
  | { readonly type: 'reconcile'; readonly names: readonly string[] }
  | { readonly type: 'fault'; readonly left: number; readonly fault: Fault }
  | { readonly type: 'arrive' };

const stepsWith = (allowed: readonly Fault[]) =>
  fc.array(
    fc.oneof<fc.MaybeWeightedArbitrary<Step>[]>(
      { weight: 4, arbitrary: fc.record({ type: fc.constant('apply' as const), name, spec }) },
      { weight: 1, arbitrary: fc.record({ type: fc.constant('remove' as const), name }) },
      {
        weight: 6,
        arbitrary: fc.record({
          type: fc.constant('reconcile' as const),
          names: fc.uniqueArray(name, { minLength: 1 }),
        }),
      },
      {
        weight: 5,
        arbitrary: fc.record({
          type: fc.constant('fault' as const),
          left: fc.integer({ min: 1, max: 8 }),
          fault: fc.constantFrom(...allowed),
        }),
      },
      { weight: 1, arbitrary: fc.record({ type: fc.constant('arrive' as const) }) },
    ),
    { maxLength: 40 },
  );

/** An update arrives after a later one: only a search of the store shows it. */
const lateUpdate: Step[] = [
  { type: 'apply', name: 'a', spec: { name: 'Thor', type: 'dog', birthday: '2021-04-01T00:00:00Z' } },
  { type: 'reconcile', names: ['a'] },
  { type: 'apply', name: 'a', spec: { name: 'Tron', type: 'dog', birthday: '2021-04-01T00:00:00Z' } },
  { type: 'fault', left: 1, fault: 'late' },
  { type: 'reconcile', names: ['a'] },
  { type: 'apply', name: 'a', spec: { name: 'Thor', type: 'dog', birthday: '2021-04-01T00:00:00Z' } },
  { type: 'reconcile', names: ['a'] },
];

async function take(world: World, step: Step): Promise<void> {
  switch (step.type) {
    case 'apply':
      return world.apply(step.name, step.spec);
    case 'remove':
      return world.remove(step.name);
    case 'reconcile':
      return world.reconcile(...step.names);
    case 'fault':
      return world.failNext(step.left, step.fault);
    case 'arrive':
      return world.arrive();
  }
}

/**
 * Which request of the first reconcile of a Pet adds its pet: after the finalizer, the search for equal pets if the
 * store forgets requests, and the intent.
 */
const additionIn = (requestIdsKeptMs: number) => (requestIdsKeptMs === 0 ? 4 : 3);

/** The store's pets and the Pets, each by its id. */
function sides(world: World) {
  const wanted = [...world.pets.values()].map(({ spec, status }) => [status?.id, tripleOf(wantedPet(spec))].join());
  const stored = [...world.stored].map(([id, pet]) => [id, tripleOf(pet)].join());
  return { wanted: wanted.sort(), stored: stored.sort() };
}

describe.each([
  ['remembers request ids for a day', 24 * hourMs],
  ['knows nothing of request ids', 0],
  ['remembers request ids for a minute', 60_000],
])('with a store that %s', (_, requestIdsKeptMs) => {
  test('a search that is refused says nothing of a pet whose answer was lost', async () => {
    const world = new World(requestIdsKeptMs);
    world.apply('a', thor);
    world.failNext(additionIn(requestIdsKeptMs), 'answer lost');
    await world.reconcile('a');
    expect([world.stored.size, world.pets.get('a')?.status?.intent === undefined]).toEqual([1, false]);
    world.failNext(1, 'search refused');
    await world.reconcile('a');
    expect(world.pets.get('a')?.status?.intent).toBeDefined();
    await world.settle(names);
    expect(world.stored.size).toBe(1);
  });

  test('two Pets with equal specs whose answers were lost do not leave a third pet', async () => {
    const world = new World(requestIdsKeptMs);
    // After the first loss a search shows whether the store answers again.
    for (const [name, left] of [
      ['a', additionIn(requestIdsKeptMs)],
      ['b', additionIn(requestIdsKeptMs) + 1],
    ] as const) {
      world.apply(name, thor);
      world.failNext(left, 'answer lost');
      await world.reconcile(name);
    }
    expect(world.stored.size).toBe(2);
    await world.settle(names);
    const { wanted, stored } = sides(world);
    expect(stored).toEqual(wanted);
  });

  test('there is one pet for each Pet in the end, whatever fails, and wherever the operator is killed', async () => {
    await fc.assert(
      fc.asyncProperty(stepsWith(faults), async (sequence) => {
        const world = new World(requestIdsKeptMs);
        for (const step of sequence) await take(world, step);
        await world.settle(names);
        const { wanted, stored } = sides(world);
        expect(stored).toEqual(wanted);
        for (const { metadata, status } of world.pets.values()) {
          expect(metadata.finalizers).toEqual([petFinalizer]);
          expect(status?.intent).toBeUndefined();
        }
      }),
      { numRuns: 1000, examples: [[lateUpdate]] },
    );
  });

  test('a pet that somebody else had added is never taken, changed or deleted', async () => {
    // A store that refuses the search before a request does not say which pets are of others.
    const sequences = stepsWith(faults.filter((fault) => fault !== 'search refused'));
    await fc.assert(
      fc.asyncProperty(sequences, async (sequence) => {
        const world = new World(requestIdsKeptMs);
        const foreign = new Set(['Thor', 'Tron'].map((name) => world.addForeign({ ...thor, name })));
        const before = [...world.stored];
        for (const step of sequence) await take(world, step);
        await world.settle(names);
        const { wanted, stored } = sides(world);
        expect([...world.stored].filter(([id]) => foreign.has(id))).toEqual(before);
        expect(stored.filter((pet) => !foreign.has(pet.split(',')[0] ?? ''))).toEqual(wanted);
      }),
      { numRuns: 500 },
    );
  });
});
