import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type ConnectedClient, createClient } from '../client/create-client.ts';
import { type Client, type Connection, type Gate, GateClosedError } from '../client/index.ts';
import type { Kind } from '../kind/index.ts';
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
 * After each step the kit waits until the operator rests: it has received the last change of each object, and sends nothing. A step may itself wait for a condition, and play a controller or a
 * kubelet. The last step must delete what the first ones created.
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
 * - `retried`: the API server commits the write, the reply is lost, and the operator goes on.
 * - `stale`: like `retried`, and from the first write of the step on, the operator receives no events for a second.
 * - `overtaken`: before the write arrives, somebody else replaces the child that it changes or deletes by another object of the same
 *   name, or adds a condition and a finalizer to any other object. The operator must leave that alone until it is undone.
 *
 * After a crash, a new operator takes over.
 */
export type Perturbation = 'unsent' | 'reply-lost' | 'replied' | 'retried' | 'stale' | 'overtaken';

const perturbations: readonly Perturbation[] = ['unsent', 'reply-lost', 'replied', 'retried', 'stale'];

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
  /** The number of writes in the undisturbed runs, and how many of them a plan has perturbed. */
  readonly writes: { readonly learned: number; readonly perturbed: number };
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

/** How long the operator is `stale`. */
const staleMs = 1000;

/** At the end, the operator must not send anything for this time. */
const restMs = 2000;

/**
 * Perturbs an operator at every write.
 *
 * Runs each scenario undisturbed to learn the operator's writes and the state after each step. Then repeats it once for each
 * write and each {@link Perturbation}. A plan fails unless
 *
 * - after each step, the objects equal those of the undisturbed runs, apart from uids, versions, times and what differs
 *   between the undisturbed runs;
 * - each object was created and deleted as often as in the undisturbed runs (Events do not count, nor what the last step creates);
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
    const writeOf = ({ name }: Plan): string => name.slice(0, name.lastIndexOf(' '));
    return {
      plans: chosen.map(({ name }) => name),
      writes: { learned: new Set(plans.map(writeOf)).size, perturbed: new Set(chosen.map(writeOf)).size },
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
  /** By step. */
  readonly states: ReadonlyMap<string, Facts>;
  /** How often each object was created and deleted. */
  readonly changes: Facts;
}

interface Plan {
  /** `echo/create write 3 reply-lost` */
  readonly name: string;
  readonly learned: Learned;
  readonly step: string;
  /** The description of the write. */
  readonly write: string;
  /** Counts the writes of this description in the step, from 1. */
  readonly occurrence: number;
  readonly perturbation: Perturbation;
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
  return {
    scenario,
    states: new Map(states),
    writes: new Map(
      steps.map((step) => [
        step,
        runs.map((run) => writesOf(run, step)).reduce((one, other) => one.filter((write) => other.includes(write))),
      ]),
    ),
    changes: common(runs.map(({ changes }) => changes)),
  };
}

const generations = /\.(generation|observedGeneration|annotations\.deployment\.kubernetes\.io\/revision)$/;

const withoutGenerations = (facts: Facts): Facts => new Map([...facts].filter(([path]) => !generations.test(path)));

function plansOf(learned: Learned): readonly Plan[] {
  return [...learned.writes].flatMap(([step, writes]) =>
    writes.flatMap((numberedWrite, index) => {
      const [write = '', occurrence] = numberedWrite.split(' #');
      const [verb = '', resource] = write.split(' ');
      const isOfKind = learned.scenario.kinds.some(({ plural }) => plural === resource);
      const mayBeOvertaken = ['patch', 'update', 'delete'].includes(verb) && isOfKind;
      const all = mayBeOvertaken ? [...perturbations, 'overtaken' as const] : perturbations;
      return all.map((perturbation) => ({
        name: `${learned.scenario.name}/${step} write ${index + 1} ${perturbation}`,
        learned,
        step,
        write,
        occurrence: Number(occurrence),
        perturbation,
      }));
    }),
  );
}

async function failureOf(plan: Plan, options: RunOptions): Promise<PerturbationError | undefined> {
  const run = new Run(plan.learned.scenario, options, plan);
  try {
    await run.execute();
    return undefined;
  } catch (cause) {
    return new PerturbationError(`${plan.name} (${plan.write}): ${messageOf(cause)}\n${run.timeline}`, { cause });
  }
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${messageOf(error.cause)}`;
}

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
  #observed = new Map<string, { readonly resourceVersion: string; readonly isListed: boolean }>();
  #namespace = '';
  #step = '';
  #inFlight = 0;
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
      for (const operator of this.#operators) await operator.checkHealth();
    } finally {
      await Promise.all(this.#operators.map((operator) => operator.stop()));
      // Without a namespace controller, the objects would stay, and the operator of another run might find them.
      const { namespace } = world;
      await Promise.all(this.#scenario.kinds.map((kind) => client.deleteCollection(kind, { namespace })));
      await client.delete(Namespace, { name: namespace });
    }
  }

  async #take(step: string, act: Scenario['steps'][string], world: ScenarioWorld): Promise<void> {
    this.#step = step;
    this.#note(`step ${step}`);
    const fault = this.#plan?.step === step ? this.#inject(this.#plan) : undefined;
    try {
      await act(world);
      await this.#settle(`step ${step} has ended`, world, fault);
    } finally {
      fault?.off();
    }
  }

  #inject({ write, occurrence, perturbation }: Plan): InjectedFault | undefined {
    const on = (request: ProxiedRequest): boolean => isCounted(request) && this.#describe(request) === write;
    return this.#operators.at(-1)?.proxy.inject(this.#faultOf(perturbation), { on, every: occurrence, times: 1 });
  }

  #faultOf(perturbation: Perturbation): Fault {
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
    const fault = this.#operators.at(-1)?.proxy.inject({ type: 'slow', bytesPerSecond: 1 }, { on: isWatch });
    this.#withheld = fault;
    this.#note(`no events for ${staleMs} ms`);
    setTimeout(() => {
      fault?.off();
      this.#lastActivityAtMs = performance.now();
    }, staleMs);
  }

  /** An operator that sees its objects late may do without a write. */
  get #mayOmitWrites(): boolean {
    return this.#scenario.mayOmitWrites === true || this.#plan?.perturbation === 'stale';
  }

  /** Waits until the operator rests, and the objects are as expected. */
  async #settle(description: string, world: ScenarioWorld, fault?: InjectedFault): Promise<void> {
    const learned = this.#plan?.learned.states.get(this.#step);
    const comparable = (facts: Facts): Facts =>
      this.#overtaking?.type === 'replaced' ? withoutGenerations(facts) : facts;
    let state: Facts = new Map();
    const timeoutMs = this.#options.timeoutMs ?? 30_000;
    const quiet = this.#plan === undefined ? learningQuietMs : quietMs;
    const isSettled = async (): Promise<boolean> => {
      await this.#operators.at(-1)?.ready;
      if (fault?.count === 0 && !this.#mayOmitWrites) throw new Error('the write to perturb has not been sent');
      if (!this.#isQuiet(quiet)) throw new Error('the operator sends requests');
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
    if (this.#withheld?.ended.aborted === false) return false;
    return this.#inFlight === 0 && performance.now() - this.#lastActivityAtMs > forMs;
  }

  async #checkRest(): Promise<void> {
    const before = this.#requests;
    await delay(restMs);
    const sent = this.#requests - before;
    if (sent > 0) throw new Error(`the operator sends ${sent} requests in ${restMs} ms although nothing changes`);
  }

  #checkChanges(): void {
    if (this.#overtaking?.type === 'replaced') return;
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
    this.#current += 1;
    const number = this.#current;
    const gate = new CrashGate();
    const proxy = await FaultProxy.start({
      upstream: connection,
      observer: {
        request: (request) => this.#onRequest(request, number),
        response: (request, response) => this.#onResponse(request, response),
        watchEvent: (_, line) => this.#onEvent(line, number),
        crash: () => {
          gate.close();
          this.#observed = new Map();
          this.#note(`operator ${number} crashes`);
          this.#startOperator(world).catch((error: unknown) => this.#note(`no operator: ${messageOf(error)}`));
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

  #onRequest(request: ProxiedRequest, operator: number): void {
    this.#lastActivityAtMs = performance.now();
    this.#requests += 1;
    if (!isWatch(request)) this.#inFlight += 1;
    if (!isCounted(request)) return;
    const description = this.#describe(request);
    this.#note(`operator ${operator}: ${description}`);
    const { perturbation, step } = this.#plan ?? {};
    if (perturbation === 'stale' && step === this.#step && this.#withheld === undefined) this.#withholdEvents();
    const writes = this.writes.get(this.#step) ?? [];
    this.writes.set(this.#step, [...writes, description]);
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
    else this.#observed.set(uid, { resourceVersion, isListed });
    this.#note(`operator ${operator} receives ${type} ${object.kind} ${name} at ${resourceVersion}`);
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

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    await this.#close();
    await this.proxy.close();
  }
}
