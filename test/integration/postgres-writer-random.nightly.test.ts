import type { ObjectKey } from '@echoperator/runtime';
import { type FaultProxy, isWrite, type ProxiedRequest } from '@echoperator/testing';
import { afterAll, beforeAll, test } from '@jest/globals';
import fc from 'fast-check';
import { eventually } from '../../testkit/eventually.ts';
import { nightlyPlan, type RunEffects, runAtRandom } from '../../testkit/random-runs.ts';
import { TcpProxy } from '../../testkit/tcp-proxy.ts';
import { literal, PostgresWorld } from './environment/postgres-world.ts';

const tables = ['a', 'b', 'c'];

type Step =
  | {
      readonly type: 'apply';
      readonly index: number;
      readonly table: string;
      readonly name: string;
      readonly age: number;
    }
  | { readonly type: 'delete'; readonly index: number }
  /** Others change the row, or delete it. */
  | { readonly type: 'drift'; readonly index: number; readonly how: 'change' | 'delete' }
  | { readonly type: 'outage'; readonly how: 'stop' | 'kill' | 'refuse' | 'cut' }
  | { readonly type: 'recovery' }
  /** The operator, when so many of its requests have left. */
  | { readonly type: 'kill'; readonly after: number };

const index = fc.nat({ max: 11 });
const steps: readonly fc.WeightedArbitrary<Step>[] = [
  {
    weight: 8,
    arbitrary: fc.record({
      type: fc.constant('apply' as const),
      index,
      table: fc.constantFrom(...tables),
      name: fc.string({ unit: 'grapheme', maxLength: 20 }),
      age: fc.nat({ max: 2 ** 31 - 1 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('delete' as const), index }) },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant('outage' as const),
      how: fc.constantFrom('stop' as const, 'kill' as const, 'refuse' as const, 'cut' as const),
    }),
  },
  { weight: 2, arbitrary: fc.constant<Step>({ type: 'recovery' }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('kill' as const), after: fc.integer({ min: 1, max: 12 }) }) },
];
const drift: fc.WeightedArbitrary<Step> = {
  weight: 2,
  arbitrary: fc.record({
    type: fc.constant('drift' as const),
    index,
    how: fc.constantFrom('change' as const, 'delete' as const),
  }),
};

const sequenceOf = (...steps: readonly fc.WeightedArbitrary<Step>[]): fc.Arbitrary<readonly Step[]> =>
  fc.array(fc.oneof(...steps), { minLength: 10, maxLength: 40 });

/** In most runs only the operator changes the rows, so events alone must be sufficient. */
const sequences = fc.oneof(
  { weight: 2, arbitrary: sequenceOf(...steps) },
  { weight: 1, arbitrary: sequenceOf(...steps, drift) },
);

/** A database, an operator, and what happens to them. */
class RandomPostgresWriters implements AsyncDisposable {
  readonly #world: PostgresWorld;
  readonly #database: TcpProxy;
  readonly #settings: Readonly<Record<string, string>>;
  readonly #resources: AsyncDisposableStack;
  readonly #namespace: string;
  #isDown = false;
  /** After so many more requests the operator is killed. */
  #requestsLeft: number | undefined;
  #dying: Promise<unknown> | undefined;
  /** The number of faults so far. */
  #faults = 0;

  private constructor(
    parts: {
      readonly world: PostgresWorld;
      readonly database: TcpProxy;
      readonly api: FaultProxy;
      readonly kubeconfig: string;
      readonly namespace: string;
    },
    resources: AsyncDisposableStack,
  ) {
    const { world, database, api, kubeconfig, namespace } = parts;
    this.#world = world;
    this.#database = database;
    this.#namespace = namespace;
    this.#resources = resources;
    this.#settings = { KUBECONFIG: kubeconfig, PSQL_PORT: String(database.port), PSQL_SSLMODE: 'disable' };
    database.onSent((data) => {
      if (/INSERT INTO|DELETE FROM|pg_class/.test(data.toString('latin1'))) this.#count();
    });
    // A filter that fits nothing, and sees all.
    const on = (request: ProxiedRequest): boolean => {
      if (isWrite(request)) this.#count();
      return false;
    };
    api.inject({ type: 'lost-response' }, { on });
  }

  static async start(): Promise<RandomPostgresWriters> {
    await using resources = new AsyncDisposableStack();
    const world = resources.use(await PostgresWorld.start());
    for (const table of tables) await world.createTable(table);
    const database = resources.use(await TcpProxy.start(world.database.port));
    const { proxy: api, kubeconfig } = await world.throughProxy();
    resources.defer(() => api.close());
    const namespace = await world.cluster.namespace();
    const writers = new RandomPostgresWriters({ world, database, api, kubeconfig, namespace }, resources.move());
    await world.startOperator(writers.#settings);
    return writers;
  }

  async run(sequence: readonly Step[]): Promise<RunEffects> {
    const faultsBefore = this.#faults;
    for (const step of sequence) await this.#take(step);
    this.#requestsLeft = undefined;
    await this.#dying;
    await this.#recover();
    // An operator finds what others have changed when it starts, or after its resync period.
    if (sequence.some(({ type }) => type === 'drift')) {
      await this.#world.stopOperator();
      await this.#world.startOperator(this.#settings);
    }
    await eventually(
      'no PostgresWriter is being deleted',
      async () =>
        (await this.#world.list(this.#namespace)).every(({ metadata }) => metadata.deletionTimestamp === undefined),
      180_000,
    );
    await this.#world.settled(this.#namespace, tables);
    return {
      writes: sequence.filter(({ type }) => type === 'apply').length,
      faults: this.#faults - faultsBefore,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#requestsLeft = undefined;
    await this.#dying?.catch(() => {});
    await this.#resources.disposeAsync();
  }

  /** Counts a request, which is passed on whatever becomes of the operator. */
  #count(): void {
    if (this.#requestsLeft === undefined) return;
    this.#requestsLeft -= 1;
    if (this.#requestsLeft > 0) return;
    this.#requestsLeft = undefined;
    this.#faults += 1;
    this.#dying = this.#world.stopOperator('SIGKILL').then(() => this.#world.startOperator(this.#settings));
    // The run awaits it later.
    this.#dying.catch(() => {});
  }

  async #take(step: Step): Promise<void> {
    switch (step.type) {
      case 'apply': {
        const { type: _, index, ...spec } = step;
        await this.#world.apply(this.#key(index), { country: 'Peru', ...spec });
        break;
      }
      case 'delete':
        await this.#world.delete(this.#key(step.index));
        break;
      case 'drift':
        if (!this.#isDown) await this.#drift(step);
        break;
      case 'outage':
        await this.#outage(step.how);
        break;
      case 'recovery':
        await this.#recover();
        break;
      case 'kill':
        await this.#dying;
        this.#requestsLeft = step.after;
        break;
    }
  }

  async #drift({ index, how }: Extract<Step, { type: 'drift' }>): Promise<void> {
    const where = `WHERE id = ${literal(`${this.#namespace}/${this.#key(index).name}`)}`;
    for (const table of tables) {
      await this.#world.database.query(
        how === 'change'
          ? `UPDATE ${table} SET age = age / 2 + 1, country = NULL ${where}`
          : `DELETE FROM ${table} ${where}`,
      );
    }
  }

  async #outage(how: Extract<Step, { type: 'outage' }>['how']): Promise<void> {
    this.#faults += 1;
    if (how === 'cut') this.#database.cut();
    if (how === 'refuse') this.#database.refuse(true);
    if ((how === 'stop' || how === 'kill') && !this.#isDown) {
      this.#isDown = true;
      await this.#world.database[how]();
    }
  }

  async #recover(): Promise<void> {
    this.#database.refuse(false);
    if (this.#isDown) await this.#world.database.restart();
    this.#isDown = false;
  }

  #key(index: number): Required<ObjectKey> {
    return { name: `r-${index}`, namespace: this.#namespace };
  }
}

/** `POSTGRES_MINUTES` is how long it takes; `POSTGRES_SEED` repeats a run. */
const plan = nightlyPlan('POSTGRES');

let writers: RandomPostgresWriters;

beforeAll(async () => {
  writers = await RandomPostgresWriters.start();
});

afterAll(async () => {
  await writers?.[Symbol.asyncDispose]();
});

test(
  'whatever happens, at rest there is one row for each PostgresWriter, just so, and no other',
  () => runAtRandom(plan, sequences, (sequence) => writers.run(sequence)),
  plan.timeLimitMs + 500_000,
);
