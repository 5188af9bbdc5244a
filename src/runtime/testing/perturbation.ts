import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type ConnectedClient, createClient } from '../client/create-client.ts';
import { type Client, type Connection, type Gate, GateClosedError } from '../client/index.ts';
import {
  type Condition,
  controllerOf,
  findCondition,
  type Kind,
  type KubeObject,
  type StandardStatus,
} from '../kind/index.ts';
import { Namespace } from '../kinds/index.ts';
import type { Logger } from '../observability/index.ts';
import { connectOperator, type Operator } from '../process/connect-operator.ts';
import { eventually } from './eventually.ts';
import { addLeaves, common, differenceOf, type Facts, factsOf, type ListedObject, numbered } from './facts.ts';
import type { Fault, InjectedFault } from './fault.ts';
import { FaultProxy, type ObservedResponse } from './fault-proxy.ts';
import { type Overtaking, overtake } from './overtaking.ts';
import { isWatch, isWrite, type ProxiedRequest } from './proxied-request.ts';

/** What a step of a {@link Scenario} uses. The client is a user's: its requests do not pass the proxy. */
export interface ScenarioWorld {
  readonly client: Client;
  /** A new namespace for each run. */
  readonly namespace: string;
}

/**
 * A script of user actions, and the operator that handles them.
 *
 * After each step the kit waits until the operator rests: it has received the last change of each object, and sends nothing. A step may
 * itself wait for a condition, and play a controller or a kubelet. The last step must delete what the first ones created.
 */
export interface Scenario {
  /** Part of the names of its plans. */
  readonly name: string;
  /** The kinds of the objects that the operator maintains and that users create. The operator must watch all of them. */
  readonly kinds: readonly Kind[];
  /**
   * Adds the controllers, as in production, but limited to the namespace.
   *
   * @param gate closes when the operator crashes. Requests to other systems than the API server must pass it.
   * @returns a function that closes connections to other systems. Default: none.
   */
  addControllers(
    operator: Operator,
    namespace: string,
    gate: Gate,
  ): void | (() => Promise<void>) | Promise<void | (() => Promise<void>)>;
  /** Returns what the operator maintains outside of the cluster for a namespace. It is compared too. */
  outside?(namespace: string): Promise<readonly unknown[]>;
  /** Replaces random parts of a name: `web-x7k2p` becomes `web-*`. Default: names are not random. */
  canonicalName?(name: string): string;
  /** The user actions, in their order. */
  readonly steps: Readonly<Record<string, (world: ScenarioWorld) => Promise<unknown>>>;
  /**
   * Steps after which everything must be as after an earlier step, apart from generations: `{ 'pod-deleted': 'create' }`. For what the
   * operator restores, and for what it must not change.
   */
  readonly restores?: Readonly<Record<string, string>>;
  /** Whether the operator races with the steps or with other controllers, so that a run may end without the write to perturb. Default false. */
  readonly mayOmitWrites?: boolean;
}

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

/** Options of {@link perturb}. */
export interface PerturbOptions {
  /** A connection to the API server with administrator permissions. */
  readonly connection: Connection;
  readonly scenarios: readonly Scenario[];
  /** The operator's log. */
  readonly log: Logger;
  /** Selects the plans to run, by their names. Default: all. */
  readonly select?: (plans: readonly string[]) => readonly string[];
  /** Creates a namespace for a run and returns its name. Default: one without labels. */
  readonly createNamespace?: () => Promise<string>;
  /** How many plans run at a time. Default 4. */
  readonly concurrency?: number;
  /** How long a step of a perturbed run may take, in milliseconds. Default 30,000. */
  readonly timeoutMs?: number;
}

/** The result of {@link perturb}. */
export interface PerturbReport {
  /** The names of the plans that ran. */
  readonly plans: readonly string[];
  /** How many writes each undisturbed run sent, how many of them a plan perturbed, and how many only some of these runs sent. */
  readonly writes: { readonly learned: number; readonly perturbed: number; readonly varying: number };
  /** One error per failed plan. Its message has the plan's name, the deviation and a timeline. */
  readonly failures: readonly PerturbationError[];
  readonly minutes: number;
}

/** A perturbed run deviated from the undisturbed ones, or an undisturbed run failed. */
export class PerturbationError extends Error {
  override readonly name = 'PerturbationError';
}

/** How often each scenario runs undisturbed. What differs between the runs is not compared. */
const learningRuns = 3;

/** The operator rests if it has sent nothing for this time. */
const quietMs = 300;

/** An undisturbed run has no expected state to wait for, so it waits longer. */
const learningQuietMs = 1500;

/** What a perturbation holds back arrives after this time, even if the step has not ended. */
const releaseMs = 3000;

/** How long the operator is `stale`. */
const staleMs = 1000;

/** At the end, the operator must not send anything for this time. */
const restMs = 2000;

/**
 * Perturbs an operator at every write, and its view of every kind in every step.
 *
 * Runs each scenario undisturbed to learn the operator's writes and the state after each step. Then repeats it once for each
 * write and each {@link WritePerturbation}, and once for each step, kind and {@link ViewPerturbation}. A plan fails unless
 *
 * - after each step, the objects equal those of the undisturbed runs, apart from uids, versions, times and what differs
 *   between the undisturbed runs;
 * - each object was created and deleted as often as in the undisturbed runs (Events do not count, nor what the last step creates; not
 *   checked for `late`, because an operator may have to correct what a late write does);
 * - `lastTransitionTime` of a condition changes only with its status, unless another controller writes the object;
 * - nothing is left at the end, except objects that the garbage collector will delete;
 * - no reconcile panics, and at the end the operator sends no request for two seconds.
 *
 * @throws PerturbationError if an undisturbed run fails, or does not restore what it should.
 */
export async function perturb(options: PerturbOptions): Promise<PerturbReport> {
  const startedAtMs = performance.now();
  const { connection, concurrency = 4 } = options;
  const client = createClient(connection, { fieldManager: 'user' });
  try {
    const run = concurrently(concurrency);
    const learned = await allEnded(options.scenarios.map((scenario) => learn(scenario, { ...options, client }, run)));
    const plans = learned.flatMap(plansOf);
    const { select = (names) => names } = options;
    const selected = new Set(select(plans.map(({ name }) => name)));
    const chosen = plans.filter(({ name }) => selected.has(name));
    const results = await allEnded(chosen.map((plan) => run(() => failureOf(plan, { ...options, client }))));
    const failures = results.filter((error) => error !== undefined);
    return {
      plans: chosen.map(({ name }) => name),
      writes: {
        learned: countWrites(plans),
        perturbed: countWrites(chosen),
        varying: learned.reduce((sum, { varyingWrites }) => sum + varyingWrites, 0),
      },
      failures,
      minutes: (performance.now() - startedAtMs) / 60_000,
    };
  } finally {
    await client.close();
  }
}

/** Starts a piece of work as soon as fewer than the limit run. */
type Limit = <R>(work: () => Promise<R>) => Promise<R>;

function concurrently(limit: number): Limit {
  let free = limit;
  const waiting: (() => void)[] = [];
  return async (work) => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) free += 1;
      else next();
    }
  };
}

/** Waits until all have ended, so that nothing runs on after a failure. @throws the first error */
async function allEnded<T>(promises: readonly Promise<T>[]): Promise<readonly T[]> {
  await Promise.allSettled(promises);
  return Promise.all(promises);
}

type RunOptions = PerturbOptions & { readonly client: ConnectedClient };

/** What the undisturbed runs have in common. */
interface Learned {
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

interface Plan {
  /** `echo/create write 3 reply-lost`, `echo/update Job lagging` */
  readonly name: string;
  readonly learned: Learned;
  readonly step: string;
  readonly target: PerturbedWrite | PerturbedView;
}

interface PerturbedWrite {
  readonly type: 'write';
  /** For example `patch echos hello/status`. */
  readonly description: string;
  /** Counts the writes of this description in the step, from 1. */
  readonly occurrence: number;
  readonly perturbation: WritePerturbation;
}

interface PerturbedView {
  readonly type: 'view';
  readonly kind: Kind;
  readonly perturbation: ViewPerturbation;
}

function countWrites(plans: readonly Plan[]): number {
  const writes = plans.filter(({ target }) => target.type === 'write');
  return new Set(writes.map(({ name }) => name.slice(0, name.lastIndexOf(' ')))).size;
}

async function learn(scenario: Scenario, options: RunOptions, limit: Limit): Promise<Learned> {
  const runs = await allEnded(
    Array.from({ length: learningRuns }, () =>
      limit(async () => {
        const run = new Run(scenario, options);
        try {
          await run.execute();
        } catch (cause) {
          const message = `${scenario.name} fails undisturbed: ${messageOf(cause)}\n${run.timeline}`;
          throw new PerturbationError(message, { cause });
        }
        return run;
      }),
    ),
  );
  const steps = Object.keys(scenario.steps);
  const states = steps.map((step) => [step, common(runs.map(({ states }) => states.get(step) ?? new Map()))] as const);
  const last = steps.at(-1) ?? '';
  const left = [...(states.at(-1)?.[1].keys() ?? [])];
  if (left.length > 0) {
    throw new PerturbationError(`${scenario.name}: the last step, ${last}, must delete everything; left: ${left[0]}`);
  }
  const restorable = new Map(states.map(([step, facts]) => [step, withoutGenerations(facts)]));
  for (const [step, earlier] of Object.entries(scenario.restores ?? {})) {
    const difference = differenceOf(restorable.get(earlier) ?? new Map(), restorable.get(step) ?? new Map());
    if (difference === undefined) continue;
    throw new PerturbationError(`${scenario.name}/${step} must restore the state after ${earlier}: ${difference}`);
  }
  const writesOf = (run: Run, step: string): readonly string[] => numbered(run.writes.get(step) ?? []);
  const writes = steps.map((step) => {
    const [first = [], ...others] = runs.map((run) => writesOf(run, step));
    return [step, first.filter((write) => others.every((other) => other.includes(write)))] as const;
  });
  const sent = steps.flatMap((step) => [...new Set(runs.flatMap((run) => writesOf(run, step)))]);
  return {
    scenario,
    states: new Map(states),
    writes: new Map(writes),
    varyingWrites: sent.length - writes.flatMap(([, each]) => each).length,
    changes: common(runs.map(({ changes }) => changes)),
  };
}

const generations = /\.(generation|observedGeneration|annotations\.deployment\.kubernetes\.io\/revision)$/;

const withoutGenerations = (facts: Facts): Facts => new Map([...facts].filter(([path]) => !generations.test(path)));

function plansOf(learned: Learned): readonly Plan[] {
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

async function failureOf(plan: Plan, options: RunOptions): Promise<PerturbationError | undefined> {
  const run = new Run(plan.learned.scenario, options, plan);
  try {
    await run.execute();
    return undefined;
  } catch (cause) {
    const write = plan.target.type === 'write' ? ` (${plan.target.description})` : '';
    return new PerturbationError(`${plan.name}${write}: ${messageOf(cause)}\n${run.timeline}`, { cause });
  }
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${messageOf(error.cause)}`;
}

type ConditionedObject = KubeObject & { readonly status?: StandardStatus };

/** An execution of a scenario in a new namespace. */
class Run {
  /** The descriptions of the operator's writes, by step. */
  readonly writes = new Map<string, string[]>();
  readonly states = new Map<string, Facts>();
  readonly #scenario: Scenario;
  readonly #options: RunOptions;
  readonly #plan: Plan | undefined;
  readonly #startedAtMs = performance.now();
  readonly #timeline: string[] = [];
  /** The uids of the created and deleted objects, by `created configmaps world`. */
  readonly #uids = new Map<string, Set<string>>();
  readonly #operators: RunningOperator[] = [];
  /** The number of the operator that was started last. */
  #current = 0;
  /** The versions of the objects in the caches of the last operator, by uid. */
  #observed = new Map<
    string,
    { readonly kind: string; readonly resourceVersion: string; readonly isListed: boolean }
  >();
  /** What the perturbation holds back until the operator rests. */
  #held: (() => void) | undefined;
  /** The write of the plan has been sent, or the watch is held. */
  #isPerturbed = false;
  /** The resource that the operator has not listed again since its watch has expired. */
  #awaitedList: string | undefined;
  /** A new operator starts after the one before has stopped. */
  #restarting: Promise<void> = Promise.resolve();
  #namespace = '';
  #step = '';
  #inFlight = 0;
  /** The conditions of the objects in the caches of the last operator, by uid. */
  readonly #conditions = new Map<string, readonly Condition[]>();
  /** What is wrong with a condition that the operator wrote. */
  #wrongCondition: string | undefined;
  #overtaking: Overtaking | undefined;
  #isUndone = false;
  /** Withholds the events, once. */
  #withheld: InjectedFault | undefined;
  #requests = 0;
  #lastActivityAtMs = 0;

  /** @param plan undefined: undisturbed */
  constructor(scenario: Scenario, options: RunOptions, plan?: Plan) {
    this.#scenario = scenario;
    this.#options = options;
    this.#plan = plan;
  }

  /** The writes of the operator, the events that it received, and what the kit did, one per line. */
  get timeline(): string {
    return this.#timeline.join('\n');
  }

  get changes(): Facts {
    return new Map([...this.#uids].map(([change, uids]) => [change, uids.size]));
  }

  async execute(): Promise<void> {
    const { client, createNamespace = () => newNamespace(client) } = this.#options;
    const world = { client, namespace: await createNamespace() };
    this.#namespace = world.namespace;
    try {
      await this.#startOperator(world);
      await this.#settle('the operator has started', world);
      for (const [step, act] of Object.entries(this.#scenario.steps)) await this.#take(step, act, world);
      await this.#checkRest();
      this.#checkChanges();
      if (this.#wrongCondition !== undefined) throw new Error(this.#wrongCondition);
      for (const operator of this.#operators) await operator.checkHealth();
    } finally {
      await Promise.allSettled([this.#restarting]);
      try {
        await allEnded(this.#operators.map((operator) => operator.stop()));
      } finally {
        // Without a namespace controller, the objects would stay, and the operator of another run might find them.
        const { namespace } = world;
        await Promise.all(this.#scenario.kinds.map((kind) => client.deleteCollection(kind, { namespace })));
        await client.delete(Namespace, { name: namespace });
      }
    }
  }

  async #take(step: string, act: Scenario['steps'][string], world: ScenarioWorld): Promise<void> {
    this.#step = step;
    this.#note(`step ${step}`);
    const target = this.#plan?.step === step ? this.#plan.target : undefined;
    const fault = target && this.#inject(target);
    const acted = new AbortController();
    try {
      // A step may wait for what the operator does only with events that are held.
      const release = delay(releaseMs, undefined, acted).then(
        () => this.#release(),
        () => {},
      );
      await act(world).finally(() => acted.abort());
      await release;
      this.#lastActivityAtMs = performance.now();
      await this.#settle(`step ${step} has ended`, world, target);
    } finally {
      acted.abort();
      fault?.off();
    }
  }

  #inject(target: PerturbedWrite | PerturbedView): InjectedFault | undefined {
    const proxy = this.#operators.at(-1)?.proxy;
    if (target.type === 'view') {
      const { kind, perturbation } = target;
      const hold = proxy?.inject(
        { type: 'hold', expires: perturbation === 'missed' },
        { on: (request) => isWatch(request) && request.resource === kind.plural },
      );
      this.#isPerturbed = true;
      this.#note(`operator ${this.#current} receives nothing of ${kind.kind}`);
      this.#held = () => {
        // The next list delivers every object again.
        if (perturbation === 'missed') {
          this.#awaitedList = kind.plural;
          this.#forgetObserved(kind);
        }
        hold?.off();
      };
      return hold;
    }
    const { perturbation, occurrence } = target;
    // The kit itself stops the operator.
    if (perturbation === 'stopped') return undefined;
    const on = (request: ProxiedRequest): boolean =>
      isCounted(request) && this.#describe(request) === target.description;
    const injected = proxy?.inject(this.#faultOf(perturbation), { on, every: occurrence, times: 1 });
    if (perturbation === 'late') {
      this.#held = () => {
        this.#inFlight += 1;
        injected?.off();
      };
    }
    return injected;
  }

  /** Releases what the perturbation holds back. */
  #release(): void {
    const release = this.#held;
    if (release === undefined || !this.#isPerturbed) return;
    this.#held = undefined;
    this.#lastActivityAtMs = performance.now();
    this.#note('what was held back arrives');
    release();
  }

  #forgetObserved({ kind }: Kind): void {
    for (const [uid, observed] of this.#observed) if (observed.kind === kind) this.#observed.delete(uid);
  }

  #faultOf(perturbation: Exclude<WritePerturbation, 'stopped'>): Fault {
    if (perturbation === 'overtaken') return { type: 'delayed', until: (request) => this.#overtake(request) };
    if (perturbation === 'retried' || perturbation === 'stale') return { type: 'lost-reply' };
    return { type: 'crash', at: perturbation };
  }

  async #overtake({ resource, name }: ProxiedRequest): Promise<void> {
    const kind = this.#scenario.kinds.find(({ plural }) => plural === resource);
    if (kind === undefined) return;
    const key = { namespace: this.#namespace, name };
    // In the last step the operator may well keep what somebody else uses.
    const mayReplace = this.#step !== Object.keys(this.#scenario.steps).at(-1);
    this.#overtaking = await overtake(this.#options.client, kind, key, mayReplace);
    this.#note(`${kind.kind} ${name} is ${this.#overtaking?.type ?? 'left alone'}`);
  }

  /** Undoes what somebody else did. @throws Error if the operator has changed it */
  async #undoOvertaking(): Promise<void> {
    if (this.#overtaking === undefined || this.#isUndone) return;
    await this.#overtaking.check();
    this.#isUndone = true;
    await this.#overtaking.undo();
    this.#lastActivityAtMs = performance.now();
    this.#note('what somebody else did is undone');
  }

  #withholdEvents(): void {
    const fault = this.#operators.at(-1)?.proxy.inject({ type: 'hold', expires: false }, { on: isWatch });
    this.#withheld = fault;
    this.#note(`no events for ${staleMs} ms`);
    setTimeout(() => {
      fault?.off();
      this.#lastActivityAtMs = performance.now();
    }, staleMs);
  }

  /** An operator that sees its objects late may do without a write. */
  get #mayOmitWrites(): boolean {
    return this.#scenario.mayOmitWrites === true || this.#plan?.target.perturbation === 'stale';
  }

  /** Waits until the operator rests, and the objects are as expected. */
  async #settle(description: string, world: ScenarioWorld, target?: Plan['target']): Promise<void> {
    const learned = this.#plan?.learned.states.get(this.#step);
    const comparable = (facts: Facts): Facts =>
      this.#overtaking?.type === 'replaced' ? withoutGenerations(facts) : facts;
    let state: Facts = new Map();
    const timeoutMs = this.#options.timeoutMs ?? 30_000;
    const quiet = this.#plan === undefined ? learningQuietMs : quietMs;
    const isSettled = async (): Promise<boolean> => {
      await this.#restarting;
      await this.#operators.at(-1)?.ready;
      if (target !== undefined && !this.#isPerturbed && !this.#mayOmitWrites) {
        throw new Error('the write to perturb has not been sent');
      }
      if (!this.#isQuiet(quiet)) throw new Error('the operator sends requests');
      if (this.#held !== undefined && this.#isPerturbed) {
        this.#release();
        throw new Error('what was held back has just arrived');
      }
      if (await this.#operators.at(-1)?.isIdle()) await this.#undoOvertaking();
      state = await this.#state(world);
      const difference = learned && differenceOf(comparable(learned), comparable(state));
      if (difference !== undefined) throw new Error(difference);
      const isIdle = await this.#operators.at(-1)?.isIdle();
      // Again, because the list took time.
      return isIdle === true && this.#isQuiet(quiet);
    };
    await eventually(description, isSettled, timeoutMs);
    this.states.set(this.#step, state);
  }

  async #state(world: ScenarioWorld): Promise<Facts> {
    const facts = new Map(this.#canonicalise(await this.#list(world), world.namespace));
    const outside = (await this.#scenario.outside?.(world.namespace)) ?? [];
    for (const [index, each] of outside.entries()) addLeaves(facts, `outside ${index + 1}`, each);
    return facts;
  }

  /** Returns the objects of the scenario's kinds. @throws Error if the operator has not yet received their last changes */
  async #list({ client, namespace }: ScenarioWorld): Promise<readonly ListedObject[]> {
    const { kinds } = this.#scenario;
    const lists = await Promise.all(
      kinds.map(async (kind) => ({ kind: kind.kind, items: (await client.list(kind, { namespace })).items })),
    );
    const objects = lists.flatMap(({ kind, items }) => items.map((object) => ({ kind, object })));
    const versions = new Map(objects.map(({ object: { metadata } }) => [metadata.uid, metadata.resourceVersion]));
    const late = [...versions].find(([uid, version]) => this.#observed.get(uid)?.resourceVersion !== version)?.[0];
    const deleted = [...this.#observed].find(([uid, observed]) => observed.isListed && !versions.has(uid))?.[0];
    if (late !== undefined || deleted !== undefined) {
      const unseen = objects.find(({ object }) => object.metadata.uid === late)?.object.metadata.name;
      throw new Error(`the operator has not received the last change of ${unseen ?? 'a deleted object'}`);
    }
    return objects;
  }

  #isQuiet(forMs: number): boolean {
    if (this.#withheld?.ended.aborted === false || this.#awaitedList !== undefined) return false;
    return this.#inFlight === 0 && performance.now() - this.#lastActivityAtMs > forMs;
  }

  async #checkRest(): Promise<void> {
    const before = this.#requests;
    await delay(restMs);
    const sent = this.#requests - before;
    if (sent > 0) throw new Error(`the operator sends ${sent} requests in ${restMs} ms although nothing changes`);
  }

  #checkChanges(): void {
    if (this.#plan?.target.perturbation === 'late' || this.#overtaking?.type === 'replaced') return;
    const difference = this.#plan && differenceOf(this.#plan.learned.changes, this.changes);
    if (difference !== undefined) throw new Error(difference);
  }

  #canonicalise(objects: readonly ListedObject[], namespace: string): Facts {
    const canonicalName = (name: string): string => this.#canonicalName(name);
    return factsOf(objects, { namespace, canonicalName, omitted: ['managedFields', 'resourceVersion'] });
  }

  #canonicalName(name: string): string {
    return this.#scenario.canonicalName?.(name) ?? name;
  }

  async #startOperator(world: ScenarioWorld): Promise<void> {
    const { connection, log } = this.#options;
    this.#observed = new Map();
    this.#current += 1;
    const number = this.#current;
    const gate = new CrashGate();
    const proxy = await FaultProxy.start({
      upstream: connection,
      observer: {
        request: (request) => this.#onRequest(request, number, world),
        response: (request, response) => this.#onResponse(request, response),
        watchEvent: (_, line) => this.#onEvent(line, number),
        crash: () => {
          gate.close();
          // Nobody waits for the reply to a late write.
          if (this.#held !== undefined) this.#inFlight -= 1;
          this.#note(`operator ${number} crashes`);
          this.#restart(this.#startOperator(world));
        },
      },
    });
    const operator = await connectOperator({
      name: 'operator',
      log,
      connection: proxy.connection,
      drainTimeoutMs: 1000,
    });
    const close = await this.#scenario.addControllers(operator, world.namespace, gate);
    this.#note(`operator ${number} starts`);
    this.#operators.push(new RunningOperator(operator, proxy, async () => close?.()));
  }

  #onRequest(request: ProxiedRequest, operator: number, world: ScenarioWorld): void {
    this.#lastActivityAtMs = performance.now();
    this.#requests += 1;
    if (!isWatch(request)) this.#inFlight += 1;
    else if (request.resource === this.#awaitedList) this.#awaitedList = undefined;
    if (!isCounted(request)) return;
    const description = this.#describe(request);
    this.#note(`operator ${operator}: ${description}`);
    const writes = this.writes.get(this.#step) ?? [];
    this.writes.set(this.#step, [...writes, description]);
    const target = this.#plan?.step === this.#step ? this.#plan.target : undefined;
    if (target?.perturbation === 'stale' && this.#withheld === undefined) this.#withholdEvents();
    if (this.#isPerturbed || target?.type !== 'write' || target.description !== description) return;
    const sent = [...writes, description].filter((write) => write === description).length;
    if (sent !== target.occurrence) return;
    this.#isPerturbed = true;
    if (target.perturbation === 'stopped') this.#restart(this.#stopAndRestart(world));
  }

  #restart(restarting: Promise<void>): void {
    this.#restarting = restarting;
    // The next check of the rest throws it: this only prevents an unhandled rejection, and tells it in the timeline.
    restarting.catch((error: unknown) => this.#note(`no operator: ${messageOf(error)}`));
  }

  async #stopAndRestart(world: ScenarioWorld): Promise<void> {
    this.#note(`operator ${this.#current} is told to stop`);
    await this.#operators.at(-1)?.stop();
    await this.#startOperator(world);
  }

  #onResponse(request: ProxiedRequest, response: ObservedResponse | undefined): void {
    if (isWatch(request)) return;
    this.#inFlight -= 1;
    this.#lastActivityAtMs = performance.now();
    if (!isCounted(request)) return;
    this.#note(`  ${response?.status ?? 'not sent'}: ${this.#describe(request)}`);
    if (response === undefined || response.status >= 300 || request.resource === 'events') return;
    const isDeletion = request.verb === 'delete';
    if (!isDeletion && response.status !== 201) return;
    // The operator may observe that a child is gone before it observes that its owner is, and create the child once more.
    if (!isDeletion && this.#step === Object.keys(this.#scenario.steps).at(-1)) return;
    const { metadata = {}, details = {} } = JSON.parse(response.body);
    const name = this.#canonicalName(String(metadata.name ?? details.name));
    const change = `${request.resource} ${name} ${isDeletion ? 'deleted' : 'created'}`;
    // An object that terminates slowly may be deleted again, which changes nothing.
    this.#uids.set(change, (this.#uids.get(change) ?? new Set()).add(String(metadata.uid ?? details.uid)));
  }

  #onEvent(line: string, operator: number): void {
    const { type, object } = JSON.parse(line);
    // What the API server still sends to an operator that has crashed, nobody receives.
    if (operator !== this.#current || type === 'BOOKMARK' || type === 'ERROR') return;
    const { name, namespace, resourceVersion, uid } = object.metadata;
    if (namespace !== this.#namespace) return;
    this.#lastActivityAtMs = performance.now();
    const isListed = this.#scenario.kinds.some(({ kind }) => kind === object.kind);
    if (type === 'DELETED') this.#observed.delete(uid);
    else this.#observed.set(uid, { kind: object.kind, resourceVersion, isListed });
    if (controllerOf(object) === undefined) this.#compareConditions(type, object);
    this.#note(`operator ${operator} receives ${type} ${object.kind} ${name} at ${resourceVersion}`);
  }

  /** An ADDED event may be of a list, which skips what happened before. */
  #compareConditions(eventType: string, { metadata, status }: ConditionedObject): void {
    const conditions = status?.conditions ?? [];
    const before = eventType === 'MODIFIED' ? this.#conditions.get(metadata.uid) : undefined;
    for (const { type, status: is, lastTransitionTime } of conditions) {
      const last = findCondition(before, type);
      if (last?.status !== is || last.lastTransitionTime === lastTransitionTime) continue;
      this.#wrongCondition ??= `the lastTransitionTime of ${metadata.name}'s condition ${type} has changed, but its status is still ${is}`;
    }
    this.#conditions.set(metadata.uid, conditions);
  }

  /** `patch echos hello/status` */
  #describe({ verb, resource, path }: ProxiedRequest): string {
    const [, target = ''] = path.split(new RegExp(`/${resource}(?:/|$)`));
    return `${verb} ${resource} ${target
      .split('/')
      .map((part) => this.#canonicalName(part))
      .join('/')}`.trim();
  }

  #note(line: string): void {
    this.#timeline.push(`${((performance.now() - this.#startedAtMs) / 1000).toFixed(3)} s  ${line}`);
  }
}

/** A dry run changes nothing. */
const isCounted = (request: ProxiedRequest): boolean => isWrite(request) && !request.query.has('dryRun');

async function newNamespace(client: Client): Promise<string> {
  const name = `perturb-${randomBytes(5).toString('hex')}`;
  await client.create(Namespace, { metadata: { name } });
  return name;
}

/** Keeps an operator that has crashed for the API server from other systems: it still runs in this process. */
class CrashGate implements Gate {
  readonly #closed = new AbortController();

  get signal(): AbortSignal {
    return this.#closed.signal;
  }

  pass(): void {
    if (this.signal.aborted) throw this.signal.reason;
  }

  close(): void {
    this.#closed.abort(new GateClosedError('the operator has crashed'));
  }
}

/** An operator in this process, behind its own proxy. */
class RunningOperator {
  readonly proxy: FaultProxy;
  /** Resolves when the caches have synced. */
  readonly ready: Promise<unknown>;
  readonly #operator: Operator;
  readonly #close: () => Promise<void>;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  #failure: unknown;
  #stopped: Promise<void> | undefined;

  constructor(operator: Operator, proxy: FaultProxy, close: () => Promise<void>) {
    this.proxy = proxy;
    this.#operator = operator;
    this.#close = close;
    this.#running = operator.run(this.#stop.signal).catch((error: unknown) => {
      this.#failure = error;
    });
    this.ready = Promise.race([operator.manager.synced, this.#running]);
  }

  /** Whether no key is queued or being reconciled. */
  async isIdle(): Promise<boolean> {
    const sums = await Promise.all(
      ['workqueue_depth', 'controller_runtime_active_workers'].map((name) => this.#sum(name)),
    );
    return sums.every((sum) => sum === 0);
  }

  /** @throws Error if the operator has ended by itself or panicked */
  async checkHealth(): Promise<void> {
    if (this.#failure !== undefined) throw new Error('the operator failed', { cause: this.#failure });
    if ((await this.#sum('controller_runtime_reconcile_panics_total')) > 0) throw new Error('a reconcile panicked');
  }

  /** The sum of a metric over all controllers. */
  async #sum(name: string): Promise<number> {
    const metrics = await this.#operator.metrics.registry.metrics();
    const lines = metrics.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, 'gm'));
    return [...lines].reduce((sum, [, value]) => sum + Number(value), 0);
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stopOnce();
    return this.#stopped;
  }

  async #stopOnce(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    try {
      await this.#close();
    } finally {
      await this.proxy.close();
    }
  }
}
