import { randomBytes } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { type Condition, type CustomKind, findCondition, type Kind, type KubeObject } from '@echoperator/runtime';
import { ApiError, type Client, type Connection, createClient, isNotFound } from '@echoperator/runtime/client';
import type { StandardStatus } from '@echoperator/runtime/controller';
import { Namespace } from '@echoperator/runtime/kinds';
import fc from 'fast-check';
import { eventually } from './eventually.ts';
import { addLeaves, common, differenceOf, type Facts, factsOf } from './facts.ts';
import { forEachConcurrently } from './for-each-concurrently.ts';
import { type SpecMutation, type SpecRule, specMutations, specRules } from './spec-mutations.ts';

/** A kind to mutate. Its operator must already run. */
export interface MutationSubject {
  /** A namespaced kind whose status has `observedGeneration` and the condition `Ready`. */
  readonly kind: CustomKind;
  /** The kinds of the objects that the operator maintains for an object of this kind. */
  readonly children: readonly Kind[];
  /** A valid spec. */
  readonly spec: object;
  /**
   * Values to try instead of those that the schema suggests, by the path of the property, such as `bookApp.env[].name`.
   * Use this for values that a schema cannot describe (a cron schedule), and instead of values that would cost too much
   * (a billion replicas).
   */
  readonly values?: Readonly<Record<string, readonly unknown[]>>;
  /** Kinds of children that remain when the object is deleted. Default: none. */
  readonly childrenThatStay?: readonly Kind[];
  /** Properties that change neither the children nor the status. Default: none. */
  readonly withoutEffect?: readonly string[];
  /** Properties that cannot change after the object was created. Default: none. */
  readonly immutable?: readonly string[];
  /** Reasons of Ready that mean that the spec is refused, in addition to reasons with `Invalid` or `Refused`. */
  readonly refusals?: readonly string[];
  /**
   * Properties that the operator applies even while another property is refused, such as `replicas` beside an invalid
   * template. Default: none.
   */
  readonly followedWhileRefused?: readonly string[];
  /** Replaces random parts of a name: `web-x7k2p` becomes `web-*`. Default: names are not random. */
  canonicalName?(name: string): string;
  /**
   * Whether the value at a path, such as `Job hello #1.spec.suspend`, may depend on the object's history. Default: none
   * may.
   */
  mayDiffer?(path: string): boolean;
  /** Returns what the operator maintains outside the cluster for the objects of a namespace. It is compared too. */
  external?(namespace: string): Promise<unknown>;
}

/** Options of {@link mutate}. */
export interface MutateOptions {
  /** A connection to the API server with administrator permissions. */
  readonly connection: Connection;
  readonly subjects: readonly MutationSubject[];
  /** The seed of the random histories. Default: random. */
  readonly seed?: number;
  /** The number of random histories of each subject. Default 20. */
  readonly histories?: number;
  /** Selects the plans to run, by their names: `echo/message` or `echo/histories`. Default: all. */
  readonly select?: (plan: string) => boolean;
  /** Creates a namespace and returns its name. Default: one without labels. */
  readonly createNamespace?: () => Promise<string>;
  /** How many plans run concurrently. Default 4. */
  readonly concurrency?: number;
  /** Called for each failure immediately, because a run may take minutes. */
  readonly onFailure?: (failure: MutationError) => void;
  /** How long an object may take to settle, or to be deleted, in milliseconds. Default 30,000. */
  readonly timeoutMs?: number;
  /**
   * How long an object that has settled may take to be like a new one, in milliseconds. Default: `timeoutMs`. A random
   * history that fails waits as long again for each shorter history that fails too.
   */
  readonly likenessTimeoutMs?: number;
}

/** The result of {@link mutate}. */
export interface MutateReport {
  readonly properties: {
    readonly all: readonly string[];
    /** Properties for which the API server accepted another value. */
    readonly changed: readonly string[];
    /**
     * Properties for which the API server rejected each other value, although new objects could be created with other
     * values.
     */
    readonly immutable: readonly string[];
  };
  /** The CEL rules of the specs, such as `PodSet/template.metadata.labels: the label app is reserved`. */
  readonly rules: {
    readonly all: readonly string[];
    /** Rules that a rejection of the API server named. */
    readonly broken: readonly string[];
  };
  /** How many values the API server accepted, and how many it rejected. */
  readonly values: { readonly accepted: number; readonly rejected: number };
  readonly histories: number;
  readonly seed: number;
  /** One error per failed plan. */
  readonly failures: readonly MutationError[];
  readonly minutes: number;
}

/** An object did not become what its spec describes. */
export class MutationError extends Error {
  override readonly name = 'MutationError';
}

/** A new object has settled when it and its children have not changed for this time. */
const quietMs = 1000;

/** Members that depend on the history of an object. */
const omitted = ['managedFields', 'resourceVersion', 'generation', 'observedGeneration'];

/** Matches reasons of Ready that mean that the spec, or a request that follows from it, is refused. */
const refused = /(Invalid|Refused)/;

/**
 * Changes the specs of objects in every way that their schema suggests, and compares each object with a new one of the
 * same spec.
 *
 * For each property, one object gets each value in turn, then no value, then its first spec again. Random histories
 * change several properties, sometimes before the operator has handled the previous change. The shortest failing
 * history is reported. A plan fails unless
 *
 * - each accepted spec settles: `observedGeneration` and the condition Ready are those of the last generation;
 * - then the object and its children equal a new object and its children, apart from uids, versions, generations,
 *   times, and differences between two new objects;
 * - a spec that Ready refuses (its reason contains `Invalid` or `Refused`, or is one of `refusals`) leaves the children
 *   unchanged. If the API server refuses a part (`Refused`), a child of another part may also equal that of a new
 *   object. The message of Ready names the property;
 * - at least one of the values of a property changes the children, the status or the metadata of a new object;
 * - the API server's rejection names the property, and the API server rejects each change of an immutable property;
 * - the first spec restores the first state, and after the deletion nothing is left.
 */
export async function mutate(options: MutateOptions): Promise<MutateReport> {
  const startedAtMs = performance.now();
  const {
    connection,
    concurrency = 4,
    select = () => true,
    seed = randomBytes(4).readInt32LE(),
    histories = 20,
  } = options;
  const client = createClient(connection, { fieldManager: 'user' });
  try {
    const count: Count = {
      changed: new Set(),
      immutable: new Set(),
      broken: new Set(),
      accepted: 0,
      rejected: 0,
      histories: 0,
    };
    const mutators = options.subjects.map((subject) => new Mutator(subject, client, options, count));
    const plans = mutators.flatMap((mutator) => [
      ...mutator.properties.map((property) => ({
        name: `${mutator.name}/${property}`,
        run: () => mutator.mutate(property),
      })),
      { name: `${mutator.name}/histories`, run: () => mutator.randomHistories(seed, histories) },
    ]);
    const failures: MutationError[] = [];
    await forEachConcurrently(
      plans.filter(({ name }) => select(name)),
      ({ name, run }) =>
        run().catch((cause: unknown) => {
          const failure = new MutationError(`${name}: ${messageOf(cause)}`, { cause });
          failures.push(failure);
          options.onFailure?.(failure);
        }),
      concurrency,
    );
    return {
      properties: {
        all: mutators.flatMap(({ name, properties }) => properties.map((property) => `${name}/${property}`)),
        changed: [...count.changed],
        immutable: [...count.immutable],
      },
      rules: { all: mutators.flatMap(({ rules }) => rules.map(({ name }) => name)), broken: [...count.broken] },
      values: { accepted: count.accepted, rejected: count.rejected },
      histories: count.histories,
      seed,
      failures,
      minutes: (performance.now() - startedAtMs) / 60_000,
    };
  } finally {
    await client.close();
  }
}

interface Count {
  readonly changed: Set<string>;
  readonly immutable: Set<string>;
  readonly broken: Set<string>;
  accepted: number;
  rejected: number;
  histories: number;
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${messageOf(error.cause)}`;
}

class Mutator {
  readonly name: string;
  readonly properties: readonly string[];
  readonly rules: readonly SpecRule[];
  readonly #mutations: readonly SpecMutation[];
  readonly #subject: MutationSubject;
  readonly #client: Client;
  readonly #options: MutateOptions;
  readonly #count: Count;
  /** By spec, as JSON. Histories repeat the same specs often, especially while they shrink. */
  readonly #refusals = new Map<string, Promise<boolean>>();
  readonly #learned = new Map<string, Promise<Facts>>();

  constructor(subject: MutationSubject, client: Client, options: MutateOptions, count: Count) {
    this.name = subject.kind.kind;
    this.#subject = subject;
    this.#client = client;
    this.#options = options;
    this.#count = count;
    this.#mutations = specMutations(subject.kind, subject.values);
    this.rules = specRules(subject.kind).map((rule) => ({ ...rule, name: `${this.name}/${rule.name}` }));
    this.properties = [...new Set(this.#mutations.map(({ property }) => property))];
  }

  /** Gives one object each value of a property, then no value, then its first spec again. */
  async mutate(property: string): Promise<void> {
    const { spec, withoutEffect = [], immutable = [] } = this.#subject;
    await this.#withObject(spec, async (object) => {
      const first = await this.#expectEqual(object, spec, 'a new object');
      const accepted: Facts[] = [];
      let current = spec;
      for (const mutation of this.#mutations.filter((each) => each.property === property)) {
        const next = mutation.apply(spec);
        if (isDeepStrictEqual(next, current)) continue;
        const isAccepted = await this.#replaceSpec(object, next, mutation);
        if (immutable.includes(property)) {
          if (isAccepted) throw new MutationError(`${mutation.description}: accepted, although it is immutable`);
          if (await this.#canBeCreated(next)) this.#count.immutable.add(`${this.name}/${property}`);
        } else if (isAccepted) {
          current = next;
          this.#count.changed.add(`${this.name}/${property}`);
          accepted.push(await this.#expectEqual(object, next, mutation.description, property));
        }
      }
      const hasEffect = accepted.some((facts) => this.#differenceOf(first, facts, this.#isEffect) !== undefined);
      if (accepted.length > 0 && !hasEffect && !withoutEffect.includes(property)) {
        throw new MutationError(`no value of ${property} changes the children, the status or the metadata`);
      }
      await object.replace(spec);
      await this.#expectEqual(object, spec, `the first spec again after ${property}`);
    });
  }

  async randomHistories(seed: number, numRuns: number): Promise<void> {
    const step = fc.record({ mutation: fc.constantFrom(...this.#mutations), waits: fc.boolean() });
    const history = fc.array(step, { minLength: 2, maxLength: 6 });
    const result = await fc.check(
      fc.asyncProperty(history, (steps) => this.#runHistory(steps)),
      { seed, numRuns },
    );
    if (!result.failed) return;
    const [steps = []] = result.counterexample ?? [];
    const text = steps.map(({ mutation, waits }) => `${mutation.description}${waits ? ', settled' : ''}`).join('; ');
    throw new MutationError(`seed ${seed}: ${text}`, { cause: result.errorInstance });
  }

  async #runHistory(history: readonly { readonly mutation: SpecMutation; readonly waits: boolean }[]): Promise<void> {
    this.#count.histories += 1;
    const { spec: first, followedWhileRefused = [] } = this.#subject;
    await this.#withObject(first, async (object) => {
      let [spec, isRefused] = [first, false];
      for (const { mutation, waits } of history) {
        const next = mutation.apply(spec);
        const willBeRefused = await this.#refuses(next);
        // Only a settled state is certain to stay unchanged when the next spec is refused.
        if (willBeRefused && !isRefused) {
          await object.settled();
          object.lastFacts = await object.factsAtRest();
        }
        if (!(await this.#replaceSpec(object, next, mutation))) continue;
        const isFollowed = isRefused && willBeRefused && followedWhileRefused.includes(mutation.property);
        [spec, isRefused] = [next, willBeRefused];
        if (isFollowed) {
          await object.settled();
          object.lastFacts = await object.factsAtRest();
        } else if (willBeRefused) {
          // The children of the next refused spec are compared with these: the operator may apply a part of that spec.
          await this.#expectEqual(object, next, mutation.description);
        } else if (waits) {
          await object.settled();
        }
      }
      await this.#expectEqual(object, spec, 'the last spec');
      if (!(await object.replace(first)).isRejected) await this.#expectEqual(object, first, 'the first spec again');
    });
  }

  /** @returns whether the API server accepted the spec */
  async #replaceSpec(object: ObjectOfSpec, spec: object, { property, description }: SpecMutation): Promise<boolean> {
    const { isRejected, message } = await object.replace(spec);
    this.#count[isRejected ? 'rejected' : 'accepted'] += 1;
    if (!isRejected) return true;
    for (const rule of this.rules) if (rule.isNamedBy(message)) this.#count.broken.add(rule.name);
    if (namesProperty(message, property)) return false;
    throw new MutationError(`${description}: the API server's rejection does not name the property: ${message}`);
  }

  readonly #isEffect = (path: string): boolean => !path.startsWith(`${this.name} ${name} #1.spec`);

  /**
   * Waits until the object is like a new one of the spec. If Ready refuses the spec, the children must be unchanged.
   *
   * @param property the changed property, which a refusal must name. Default: a refusal may name any property
   * @returns the facts of a new object
   */
  async #expectEqual(object: ObjectOfSpec, spec: object, description: string, property?: string): Promise<Facts> {
    const expected = await this.#factsOfNew(spec);
    const before = object.lastFacts;
    await object.settled();
    const { timeoutMs = 30_000, likenessTimeoutMs = timeoutMs } = this.#options;
    const ready = this.#readyOf(expected);
    const reason = expected.get(`${ready}.reason`);
    const isRefused = typeof reason === 'string' && this.#isRefusal(reason);
    const isChild = (path: string): boolean => objectOf(path) !== objectOf(ready ?? '');
    // The status and the message may describe the unchanged state.
    const isCompared = (path: string): boolean =>
      !isRefused || (isChild(path) && before !== undefined) || path === `${ready}.reason` || path === `${ready}.status`;
    const isEqual = async (): Promise<boolean> => {
      const actual = await object.facts();
      const wanted = isRefused
        ? this.#afterRefusal(reason, { before: before ?? new Map(), expected, actual })
        : expected;
      const difference = this.#differenceOf(wanted, actual, isCompared);
      if (difference !== undefined) throw new Error(difference);
      return true;
    };
    await eventually(description, isEqual, likenessTimeoutMs);
    object.lastFacts = await object.facts();
    if (isRefused) {
      const message = String(object.lastFacts.get(`${ready}.message`) ?? '');
      const isNamed = property === undefined ? message !== '' : namesProperty(message, property);
      if (!isNamed)
        throw new MutationError(`${description}: the message of ${reason} does not name the property: ${message}`);
    }
    return expected;
  }

  /**
   * The expected state of an object after a refused spec: the object itself is like a new object, and each child is
   * unchanged. If only a part of the spec is refused, the operator may have applied the rest: then a child may also be
   * like that of a new object.
   */
  #afterRefusal(
    reason: string,
    { before, expected, actual }: Readonly<Record<'before' | 'expected' | 'actual', Facts>>,
  ): Facts {
    const isPartial = reason.includes('Refused');
    const own = objectOf(this.#readyOf(expected) ?? '');
    const objects = new Set([...before.keys(), ...expected.keys(), ...actual.keys()].map(objectOf));
    const wanted = [...objects].map((object) => {
      const isOfObject = (path: string): boolean => objectOf(path) === object;
      const isNew = object === own || (isPartial && this.#differenceOf(expected, actual, isOfObject) === undefined);
      const hasObject = [...expected.keys()].some(isOfObject);
      return [...(isNew && hasObject ? expected : before)].filter(([path]) => isOfObject(path));
    });
    return new Map(wanted.flat());
  }

  /** Whether the API server accepts new objects of a spec. The new objects are compared with each other. */
  async #canBeCreated(spec: object): Promise<boolean> {
    try {
      await this.#factsOfNew(spec);
      return true;
    } catch (error) {
      if (isRejection(error)) return false;
      throw error;
    }
  }

  /** Whether Ready refuses the spec of a new object. */
  #refuses(spec: object): Promise<boolean> {
    const text = JSON.stringify(spec);
    const known = this.#refusals.get(text) ?? this.#tryNew(spec);
    this.#refusals.set(text, known);
    return known;
  }

  async #tryNew(spec: object): Promise<boolean> {
    try {
      return await this.#withObject(spec, async (object) => {
        await object.settled();
        const facts = await object.facts();
        return this.#isRefusal(String(facts.get(`${this.#readyOf(facts)}.reason`)));
      });
    } catch (error) {
      if (isRejection(error)) return false;
      throw error;
    }
  }

  #isRefusal(reason: string): boolean {
    return refused.test(reason) || this.#subject.refusals?.includes(reason) === true;
  }

  /** The path of the condition Ready. */
  #readyOf(facts: Facts): string | undefined {
    const pattern = new RegExp(`^${this.name} .*\\.status\\.conditions\\.\\d+\\.type$`);
    return [...facts].find(([path, value]) => value === 'Ready' && pattern.test(path))?.[0].replace(/\.type$/, '');
  }

  #differenceOf(expected: Facts, actual: Facts, isCompared: (path: string) => boolean): string | undefined {
    const { mayDiffer = () => false } = this.#subject;
    const compared = (facts: Facts): Facts =>
      new Map([...facts].filter(([path]) => isCompared(path) && !mayDiffer(path)));
    return differenceOf(compared(expected), compared(actual));
  }

  /** Returns what two new objects of a spec have in common. */
  #factsOfNew(spec: object): Promise<Facts> {
    const text = JSON.stringify(spec);
    const learned = this.#learned.get(text) ?? this.#learn(spec);
    this.#learned.set(text, learned);
    return learned;
  }

  async #learn(spec: object): Promise<Facts> {
    const all: Facts[] = [];
    const learnOne = () =>
      this.#withObject(spec, async (object) => {
        await object.settled();
        all.push(await object.factsAtRest());
      });
    await Promise.all([learnOne(), learnOne()]);
    return common(all);
  }

  /** Runs `work` with a new object in a new namespace, deletes the object, and expects that nothing is left. */
  async #withObject<R>(spec: object, work: (object: ObjectOfSpec) => Promise<R>): Promise<R> {
    const client = this.#client;
    const { createNamespace = () => newNamespace(client), timeoutMs = 30_000 } = this.#options;
    const namespace = await createNamespace();
    const object = new ObjectOfSpec(this.#subject, client, namespace, timeoutMs);
    try {
      await object.create(spec);
      const result = await work(object);
      await object.delete();
      return result;
    } finally {
      await client.delete(this.#subject.kind, { namespace, name }).catch(ignoreNotFound);
      await client.delete(Namespace, { name: namespace });
    }
  }
}

const name = 'mutated';

/** The object in a path of {@link Facts}: `Job hello #1` for `Job hello #1.spec.suspend`. */
const objectOf = (path: string): string => /^.* #\d+(?=\.)/.exec(path)?.[0] ?? 'external';

/** Whether a message contains a part of the property's path. */
const namesProperty = (message: string, property: string): boolean =>
  property.split(/\W+/).some((part) => part !== '' && message.includes(part));

/** Whether the API server rejects the content of a request. */
const isRejection = (error: unknown): error is ApiError =>
  error instanceof ApiError && (error.code === 422 || error.code === 400);

const ignoreNotFound = (error: unknown): void => {
  if (!isNotFound(error)) throw error;
};

async function newNamespace(client: Client): Promise<string> {
  const namespace = `mutate-${randomBytes(5).toString('hex')}`;
  await client.create(Namespace, { metadata: { name: namespace } });
  return namespace;
}

type StatusObject = KubeObject & { readonly status?: StandardStatus };

/** An object of the mutated kind, alone in its namespace. */
class ObjectOfSpec {
  /** The object's facts when it last settled. */
  lastFacts: Facts | undefined;
  readonly #subject: MutationSubject;
  readonly #client: Client;
  readonly #namespace: string;
  readonly #timeoutMs: number;
  #before: Facts = new Map();

  constructor(subject: MutationSubject, client: Client, namespace: string, timeoutMs: number) {
    this.#subject = subject;
    this.#client = client;
    this.#namespace = namespace;
    this.#timeoutMs = timeoutMs;
  }

  async create(spec: object): Promise<void> {
    this.#before = await this.facts();
    const manifest = { metadata: { namespace: this.#namespace, name }, spec };
    await this.#client.create<KubeObject>(this.#subject.kind, manifest);
  }

  /** Replaces the spec. @returns whether the API server rejected it, and its message */
  async replace(spec: object): Promise<{ readonly isRejected: boolean; readonly message: string }> {
    const patch = { type: 'json', body: [{ op: 'replace', path: '/spec', value: spec }] } as const;
    try {
      await this.#client.patch<KubeObject>(this.#subject.kind, this.#key, patch);
      return { isRejected: false, message: '' };
    } catch (error) {
      if (!isRejection(error)) throw error;
      return { isRejected: true, message: error.message };
    }
  }

  /** Waits until the status is that of the last generation. */
  async settled(): Promise<void> {
    let ready: Condition | undefined;
    const isSettled = async (): Promise<boolean> => {
      const { metadata, status } = await this.#client.get<StatusObject>(this.#subject.kind, this.#key);
      ready = findCondition(status?.conditions, 'Ready');
      if (status?.observedGeneration !== metadata.generation || ready?.observedGeneration !== metadata.generation) {
        const observed = `${status?.observedGeneration}, of Ready ${ready?.observedGeneration}`;
        throw new Error(`generation ${metadata.generation}, observedGeneration ${observed} (${ready?.reason})`);
      }
      return true;
    };
    await eventually('the status is that of the last generation', isSettled, this.#timeoutMs);
  }

  async facts(): Promise<Facts> {
    const { kind, children, canonicalName = (text: string) => text, external } = this.#subject;
    const lists = await Promise.all(
      [kind, ...children].map(async (each: Kind) => {
        const { items } = await this.#client.list(each, { namespace: this.#namespace });
        return items.map((object) => ({ kind: each.kind, object }));
      }),
    );
    const facts = new Map(factsOf(lists.flat(), { namespace: this.#namespace, canonicalName, omitted }));
    if (external !== undefined) addLeaves(facts, 'external', await external(this.#namespace));
    return facts;
  }

  /** Returns the facts when they have not changed for a while. */
  async factsAtRest(): Promise<Facts> {
    let [last, sinceMs]: [Facts, number] = [await this.facts(), performance.now()];
    return eventually(
      'nothing changes',
      async () => {
        const facts = await this.facts();
        if (differenceOf(last, facts) !== undefined) [last, sinceMs] = [facts, performance.now()];
        return performance.now() - sinceMs > quietMs && facts;
      },
      this.#timeoutMs,
    );
  }

  async delete(): Promise<void> {
    const { kind, childrenThatStay = [] } = this.#subject;
    await this.#client.delete(kind, this.#key);
    const isKept = (path: string): boolean => childrenThatStay.some((each) => path.startsWith(`${each.kind} `));
    const isGone = async (): Promise<boolean> => {
      const left = new Map([...(await this.facts())].filter(([path]) => !isKept(path)));
      const difference = differenceOf(this.#before, left);
      if (difference !== undefined) throw new Error(difference);
      return true;
    };
    await eventually('after the deletion, nothing is left', isGone, this.#timeoutMs);
  }

  get #key() {
    return { namespace: this.#namespace, name };
  }
}
