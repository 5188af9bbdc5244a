import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type Condition, controllerOf, findCondition, type Kind, type KubeObject } from '@echoperator/runtime';
import type { Client, ConnectedClient } from '@echoperator/runtime/client';
import { connectOperatorWith } from '@echoperator/runtime/internal';
import { Namespace } from '@echoperator/runtime/kinds';
import { Metrics } from '@echoperator/runtime/process';
import { Registry } from 'prom-client';
import { eventually } from './eventually.ts';
import { addLeaves, differenceOf, type Facts, factsOf, type ListedObject } from './facts.ts';
import type { Fault, InjectedFault } from './fault.ts';
import { FaultProxy, type ObservedResponse } from './fault-proxy.ts';
import { type Overtaking, overtake } from './overtaking.ts';
import { allEnded, messageOf } from './perturbation-errors.ts';
import { ObjectHistory } from './perturbation-history.ts';
import { maxTransitMs, type ObservedVersion, RunningOperator } from './perturbation-operator.ts';
import { ChangeCounts, changesIn, TransitionTimes } from './perturbation-oracles.ts';
import { discarded, outsideWrite } from './perturbation-outside.ts';
import {
  type PerturbedView,
  type PerturbedWrite,
  type Plan,
  type ViewPerturbation,
  type WritePerturbation,
  withoutGenerations,
} from './perturbation-plans.ts';
import type { OutsideWrite, PerturbOptions, Scenario, ScenarioWorld } from './perturbation-scenario.ts';
import { isList, isStreamedList, isWatch, isWrite, type ProxiedRequest } from './proxied-request.ts';
import type { SentTimes } from './sent-times.ts';

export type RunOptions = PerturbOptions & { readonly client: ConnectedClient; readonly sentTimes: SentTimes };

/** The operator rests if it has sent nothing for this time: it may write its progress once a second. */
const quietMs = 1100;

/** An undisturbed run has no expected state to wait for, so it waits longer. */
const learningQuietMs = 1500;

/** What a perturbation holds back arrives after this time, even if the step has not ended. */
const releaseMs = 3000;

/** How long the operator is `stale`. */
const staleMs = 1000;

/** After an undisturbed or perturbed step, the operator must not send anything for this time. */
const restMs = 2000;

/** How many times that is tried, if something else changes the objects meanwhile. */
const maxRests = 5;

/** Short, but a busy machine must not lose a Lease. */
const leaseTimings = { leaseDurationSeconds: 12, renewDeadlineSeconds: 9, retryPeriodSeconds: 0.5 };

/** An execution of a scenario in a new namespace. */
export class Run {
  /** The descriptions of the operator's writes, by step. */
  readonly writes = new Map<string, string[]>();
  readonly states = new Map<string, Facts>();
  /** The kinds of the events that the operator received, by step. */
  readonly eventKinds = new Map<string, Set<string>>();
  readonly #scenario: Scenario;
  readonly #options: RunOptions;
  readonly #plan: Plan | undefined;
  readonly #startedAtMs = performance.now();
  readonly #timeline: string[] = [];
  readonly #changes = new ChangeCounts();
  readonly #transitionTimes = new TransitionTimes();
  readonly #operators: RunningOperator[] = [];
  /** The one that works, if it has not crashed. */
  #current: RunningOperator | undefined;
  /** What the perturbation holds back until the operator rests. */
  #held: (() => void) | undefined;
  /** The write of the plan has been sent, or the watch is held. */
  #isPerturbed = false;
  /** The write of the plan, if it is one to the API server. */
  #perturbedRequest: ProxiedRequest | undefined;
  /** The write of the plan was one to another system, and has been perturbed. */
  #isOutsidePerturbed = false;
  /** The resource that the operator has not listed again since its watch has expired. */
  #awaitedList: string | undefined;
  /** A new operator starts after the one before has stopped. */
  #restarting: Promise<void> = Promise.resolve();
  #namespace = '';
  #step = '';
  /** The first thing that must not happen at any time. */
  #violation: Error | undefined;
  /** The fault of the plan. */
  #fault: InjectedFault | undefined;
  #overtaking: Overtaking | undefined;
  #isUndone = false;
  /** Withholds the events, once. */
  #withheld: InjectedFault | undefined;
  /** The version before the step, if the new operator must begin with it. */
  #past: string | undefined;
  readonly #outsideChecks: Promise<void>[] = [];
  /** The reads and writes of the operators. */
  readonly #requests: string[] = [];
  /** Whether the API server has ended or refused a watch since the step began, or since the last rest. The operator lists or watches again. */
  #hasEndedWatch = false;
  /** How many {@link #requests} were sent before the first event since the operator rested. */
  #requestsBeforeEvent: number | undefined;
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

  /** Whether the perturbation has taken place. */
  get isHit(): boolean {
    if (this.#plan === undefined) return false;
    const { perturbation } = this.#plan.target;
    if (isHandover(perturbation)) return this.#isPerturbed;
    if (perturbation === 'overtaken') return this.#overtaking !== undefined;
    return this.#isOutsidePerturbed || (this.#fault?.count ?? 0) > 0;
  }

  get changes(): Facts {
    return this.#changes.facts;
  }

  /** Makes the run fail, whatever else happens. */
  fail(violation: Error): void {
    this.#violation ??= violation;
    this.#note(`failed: ${violation.message}`);
  }

  async execute(): Promise<void> {
    const { client, createNamespace = () => newNamespace(client) } = this.#options;
    const world = { client, namespace: await createNamespace() };
    this.#namespace = world.namespace;
    const { always, kinds } = this.#scenario;
    const history = always && (await ObjectHistory.start(client, kinds, world.namespace));
    try {
      this.#current = await this.#startOperator(world);
      await this.#settle('the operator has started', world);
      if (this.#hasStandby) await this.#startOperator(world);
      for (const [step, act] of this.#stepsToTake()) await this.#take(step, act, world);
      this.#checkChanges();
      for (const operator of this.#operators) await operator.checkHealth();
      await Promise.all(this.#outsideChecks);
      if (always !== undefined && !this.#isCorrected) history?.check(always());
      if (this.#violation !== undefined) throw this.#violation;
    } catch (error) {
      // It is likely the cause.
      throw this.#violation ?? error;
    } finally {
      await Promise.allSettled([this.#restarting, history?.stop(), ...this.#outsideChecks]);
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

  /** A perturbed run goes from its step straight to the last one, which deletes everything. */
  #stepsToTake(): readonly (readonly [name: string, act: Scenario['steps'][string]])[] {
    const steps = Object.entries(this.#scenario.steps);
    const perturbed = steps.findIndex(([name]) => name === this.#plan?.step.name);
    return this.#plan === undefined
      ? steps
      : [...steps.slice(0, perturbed + 1), ...steps.slice(perturbed + 1).slice(-1)];
  }

  async #take(step: string, act: Scenario['steps'][string], world: ScenarioWorld): Promise<void> {
    this.#step = step;
    this.#note(`step ${step}`);
    this.#hasEndedWatch = false;
    const target = this.#target;
    if (target?.perturbation === 'past') this.#past = await versionOf(world, this.#scenario.kinds);
    this.#fault ??= target && this.#inject(target);
    try {
      await act(world);
      this.#lastActivityAtMs = performance.now();
      await this.#end(step, world, target);
    } finally {
      this.#fault?.off();
    }
  }

  /** What the plan perturbs in the present step. */
  get #target(): Plan['target'] | undefined {
    return this.#plan?.step.name === this.#step ? this.#plan.target : undefined;
  }

  #inject(target: PerturbedWrite | PerturbedView): InjectedFault | undefined {
    const proxy = this.#current?.proxy;
    if (target.type === 'view') {
      const { kind, perturbation } = target;
      const hold = proxy?.inject(
        { type: 'hold', expires: perturbation === 'missed' },
        { on: (request) => isWatch(request) && request.resource === kind.plural },
      );
      this.#isPerturbed = true;
      this.#note(`operator ${this.#current?.number} receives nothing of ${kind.kind}`);
      this.#hold(() => {
        // The next list delivers every object again.
        if (perturbation === 'missed') {
          this.#awaitedList = kind.plural;
          this.#forgetObserved(kind);
        }
        hold?.off();
      });
      return hold;
    }
    if (isHandover(target.perturbation)) return undefined;
    return proxy?.inject(this.#faultOf(target.perturbation), { on: (request) => request === this.#perturbedRequest });
  }

  /** @param release is called when the operator rests, or after a while: a step may wait for what the operator does only with events. */
  #hold(release: () => void): void {
    this.#held = release;
    setTimeout(() => {
      // A Lease expires later than that, and then the standby works.
      if (this.#held === release && !this.#hasStandby) this.#release();
    }, releaseMs);
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
    const observed = this.#current?.observed ?? new Map<string, ObservedVersion>();
    for (const [uid, version] of observed) if (version.kind === kind) observed.delete(uid);
  }

  #faultOf(perturbation: Exclude<WritePerturbation, Handover>): Fault {
    if (perturbation === 'overtaken') {
      const fail = (cause: unknown): void =>
        this.fail(new Error('an object was not edited or replaced before the write arrived', { cause }));
      return { type: 'delayed', until: (request) => this.#overtake(request).catch(fail) };
    }
    if (perturbation === 'retried' || perturbation === 'stale') return { type: 'lost-response' };
    return { type: 'crash', at: perturbation === 'past' ? 'replied' : perturbation };
  }

  async #overtake({ resource, name }: ProxiedRequest): Promise<void> {
    const kind = this.#scenario.kinds.find(({ plural }) => plural === resource);
    if (kind === undefined) return;
    const key = { namespace: this.#namespace, name };
    this.#overtaking = await overtake(this.#options.client, kind, key);
    this.#note(`${kind.kind} ${name} is ${this.#overtaking?.type ?? 'gone'}`);
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
    const fault = this.#current?.proxy.inject({ type: 'hold', expires: false }, { on: isWatch });
    this.#withheld = fault;
    this.#note(`no events for ${staleMs} ms`);
    setTimeout(() => {
      fault?.off();
      this.#lastActivityAtMs = performance.now();
    }, staleMs);
  }

  /** Waits until the operator rests, and the objects are as expected. */
  async #settle(description: string, world: ScenarioWorld, target?: Plan['target']): Promise<void> {
    const learned = this.#plan?.learned.steps.find(({ name }) => name === this.#step)?.state;
    const comparable = (facts: Facts): Facts =>
      this.#overtaking?.type === 'replaced' || target?.perturbation === 'past' ? withoutGenerations(facts) : facts;
    let state: Facts = new Map();
    const timeoutMs = this.#options.timeoutMs ?? 30_000;
    const quiet = this.#plan === undefined ? learningQuietMs : quietMs;
    const isSettled = async (): Promise<boolean> => {
      await this.#scenario.meanwhile?.(world);
      await this.#restarting;
      await this.#current?.ready();
      if (target !== undefined && !this.#isPerturbed && !this.#plan?.mayMiss) {
        throw new Error('the write to perturb has not been sent');
      }
      const isHeld = this.#held !== undefined && this.#isPerturbed;
      if (!this.#isQuiet(quiet)) throw new Error('the operator sends requests');
      if (isHeld) {
        this.#release();
        throw new Error('what was held back has just arrived');
      }
      if (await this.#current?.isIdle()) await this.#undoOvertaking();
      state = await this.#state(world);
      const difference = learned && differenceOf(comparable(learned), comparable(state));
      if (difference !== undefined) throw new Error(difference);
      const isIdle = await this.#current?.isIdle();
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
    const { mayDiffer = () => false } = this.#scenario;
    return new Map([...facts].filter(([path]) => !mayDiffer(path)));
  }

  /** Returns the objects of the scenario's kinds. @throws Error if the operator has not yet received their last changes */
  async #list({ client, namespace }: ScenarioWorld): Promise<readonly ListedObject[]> {
    const { kinds } = this.#scenario;
    const lists = await Promise.all(
      kinds.map(async (kind) => ({ kind: kind.kind, items: (await client.list(kind, { namespace })).items })),
    );
    const objects = lists.flatMap(({ kind, items }) => items.map((object) => ({ kind, object })));
    const versions = new Map(objects.map(({ object: { metadata } }) => [metadata.uid, metadata.resourceVersion]));
    const observed = this.#current?.observed ?? new Map<string, ObservedVersion>();
    const late = [...versions].find(([uid, version]) => observed.get(uid)?.resourceVersion !== version)?.[0];
    const deleted = [...observed].find(([uid, { isListed }]) => isListed && !versions.has(uid))?.[0];
    if (late !== undefined || deleted !== undefined) {
      const unseen = objects.find(({ object }) => object.metadata.uid === late)?.object.metadata.name;
      throw new Error(`the operator has not received the last change of ${unseen ?? 'a deleted object'}`);
    }
    return objects;
  }

  #isQuiet(forMs: number): boolean {
    if (this.#withheld?.ended.aborted === false || this.#awaitedList !== undefined) return false;
    if (this.#operators.some(({ inFlight, isCutOff }) => inFlight > 0 && !isCutOff)) return false;
    return performance.now() - this.#lastActivityAtMs > forMs;
  }

  /** Waits until the operator rests after a step. A controller of the cluster may be late and change an object: then it waits again. */
  async #end(step: string, world: ScenarioWorld, target?: Plan['target']): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      await this.#settle(`step ${step} has ended`, world, target);
      if (this.#plan !== undefined && target === undefined) return;
      const requests = this.#requests.length;
      this.#requestsBeforeEvent = undefined;
      await delay(restMs);
      const sent = this.#requests.slice(requests);
      const isAnswer = this.#requestsBeforeEvent === requests;
      const watchesAgain = this.#hasEndedWatch && sent.every((request) => /^(list|watch) /.test(request));
      this.#hasEndedWatch = false;
      if (sent.length === 0) return;
      if ((isAnswer || watchesAgain) && attempt < maxRests) continue;
      const what = `${sent.length} requests in ${restMs} ms although nothing changes`;
      throw new Error(`the operator sends ${what}: ${sent.join(', ')}`);
    }
  }

  /** Whether the operator has to correct what a late write does, or what it did itself in the past. */
  get #isCorrected(): boolean {
    const { perturbation } = this.#plan?.target ?? {};
    return perturbation === 'late' || perturbation === 'past';
  }

  #checkChanges(): void {
    if (this.#isCorrected || this.#overtaking?.type === 'replaced') return;
    const taken = this.#stepsToTake().map(([name]) => name);
    // After steps that were left out, the last one has something else to delete.
    const isWhole = taken.length === Object.keys(this.#scenario.steps).length;
    const compared = isWhole ? taken : taken.slice(0, -1);
    const difference =
      this.#plan && differenceOf(changesIn(compared, this.#plan.learned.changes), changesIn(compared, this.changes));
    if (difference !== undefined) throw new Error(difference);
  }

  #canonicalise(objects: readonly ListedObject[], namespace: string): Facts {
    const canonicalName = (name: string): string => this.#canonicalName(name);
    return factsOf(objects, { namespace, canonicalName, omitted: ['managedFields', 'resourceVersion'] });
  }

  #canonicalName(name: string): string {
    return this.#scenario.canonicalName?.(name) ?? name;
  }

  /** Whether two operators contend for a Lease. */
  get #hasStandby(): boolean {
    return this.#plan !== undefined && isHandover(this.#plan.target.perturbation);
  }

  async #startOperator(world: ScenarioWorld): Promise<RunningOperator> {
    const { connection, operatorConnection = connection, log } = this.#options;
    const number = this.#operators.length + 1;
    const observing = (observe: (operator: RunningOperator) => void): void => {
      const operator = this.#operators[number - 1];
      if (operator !== undefined) observe(operator);
    };
    const proxy = await FaultProxy.start({
      upstream: operatorConnection,
      observer: {
        request: (request, clientPort) => observing((operator) => this.#onRequest(request, operator, clientPort)),
        response: (request, response) => observing((operator) => this.#onResponse(request, response, operator)),
        watchEnded: ({ resource }) => {
          if (resource !== leases) this.#hasEndedWatch = true;
        },
        watchEvent: (_, line) => observing((operator) => this.#onEvent(line, operator)),
        crash: () => observing((operator) => this.#onCrash(operator, world)),
      },
    });
    if (this.#past !== undefined) this.#beginInPast(proxy, this.#past);
    const connected = await connectOperatorWith(new Metrics(new Registry()), {
      name: 'operator',
      log,
      connection: proxy.connection,
      drainTimeoutMs: 1000,
      leaderElection: this.#hasStandby
        ? { lease: { namespace: world.namespace, name: 'operator' }, timings: leaseTimings, warmStandby: true }
        : undefined,
    });
    const operator = new RunningOperator(number, connected, proxy);
    this.#operators.push(operator);
    await operator.start(
      this.#scenario.addControllers(connected, world.namespace, {
        gate: operator.gate,
        write: (description) => this.#onOutsideWrite(description, operator),
      }),
    );
    this.#note(`operator ${number} starts`);
    return operator;
  }

  /** Until the operator rests, its lists are of an earlier version, and it receives no events. A streamed list cannot be so. */
  #beginInPast(proxy: FaultProxy, resourceVersion: string): void {
    const faults = [
      proxy.inject({ type: 'error-response', status: 400, reason: 'BadRequest' }, { on: isStreamedList }),
      proxy.inject({ type: 'as-of', resourceVersion }, { on: isList }),
      proxy.inject({ type: 'hold', expires: false }, { on: isWatch }),
    ];
    this.#note(`the lists are of version ${resourceVersion}`);
    this.#hold(() => {
      for (const fault of faults) fault.off();
    });
  }

  #onCrash(operator: RunningOperator, world: ScenarioWorld): void {
    operator.crashed();
    this.#note(`operator ${operator.number} crashes`);
    this.#takeOver(this.#startOperator(world));
  }

  #onRequest(request: ProxiedRequest, operator: RunningOperator, clientPort: number | undefined): void {
    if (request.resource === leases) return;
    this.#lastActivityAtMs = performance.now();
    this.#requests.push(this.#describe(request));
    if (!isWatch(request)) operator.inFlight += 1;
    else if (request.resource === this.#awaitedList) this.#awaitedList = undefined;
    if (!isCounted(request)) return;
    const description = this.#describe(request);
    const sentAtMs = this.#options.sentTimes.of(clientPort) ?? performance.now();
    if (operator.gateClosedBefore(sentAtMs)) this.#failLateWrite(description, operator);
    if (!this.#isToPerturb(description, operator)) return;
    this.#perturbedRequest = request;
    if (this.#target?.perturbation === 'late') {
      operator.isCutOff = true;
      this.#hold(() => {
        operator.isCutOff = false;
        this.#fault?.off();
      });
    }
  }

  async #checkOutside(description: string): Promise<void> {
    const { outside, alwaysOutside } = this.#scenario;
    if (alwaysOutside === undefined || outside === undefined) return;
    try {
      const wrong = alwaysOutside(await outside(this.#namespace));
      if (wrong !== undefined) this.fail(new Error(`${wrong}, since ${description}`));
    } catch (cause) {
      this.fail(new Error(`the check after ${description} failed`, { cause }));
    }
  }

  #failLateWrite(description: string, { number }: RunningOperator): void {
    this.fail(new Error(`operator ${number} sends ${description} after its gate has closed`));
  }

  /** Records a write. Returns whether it is that of the plan. */
  #isToPerturb(description: string, operator: RunningOperator): boolean {
    this.#note(`operator ${operator.number}: ${description}`);
    const writes = [...(this.writes.get(this.#step) ?? []), description];
    this.writes.set(this.#step, writes);
    const target = this.#target;
    if (target?.perturbation === 'stale' && this.#withheld === undefined) this.#withholdEvents();
    if (this.#isPerturbed || target?.type !== 'write' || target.write.description !== description) return false;
    if (writes.filter((write) => write === description).length !== target.write.occurrence) return false;
    this.#isPerturbed = true;
    if (target.perturbation === 'stopped') this.#takeOver(this.#stop(operator));
    if (target.perturbation === 'cut-off') this.#takeOver(this.#cutOff(operator));
    return true;
  }

  #onOutsideWrite(description: string, operator: RunningOperator): OutsideWrite {
    this.#lastActivityAtMs = performance.now();
    this.#requests.push(description);
    if (operator.gateClosedBefore(performance.now() - maxTransitMs)) this.#failLateWrite(description, operator);
    if (operator.hasCrashed) return discarded;
    const perturbation = this.#isToPerturb(description, operator) ? this.#target?.perturbation : undefined;
    return outsideWrite(perturbation, {
      crash: () => {
        this.#isOutsidePerturbed = true;
        operator.proxy.crash();
      },
      hold: (arrive) => {
        this.#hold(arrive);
      },
      responded: () => {
        this.#lastActivityAtMs = performance.now();
        this.#note(`  responded: ${description}`);
        this.#outsideChecks.push(this.#checkOutside(description));
      },
      responseLost: () => {
        this.#isOutsidePerturbed = true;
      },
    });
  }

  /** @param starting resolves to the operator that works from then on */
  #takeOver(starting: Promise<RunningOperator | undefined>): void {
    this.#restarting = starting.then((operator) => {
      this.#current = operator;
    });
    // The next check of the rest throws it: this only prevents an unhandled rejection, and tells it in the timeline.
    this.#restarting.catch((error: unknown) => this.#note(`no operator: ${messageOf(error)}`));
  }

  /** Tells the leader to stop. Returns the standby. */
  async #stop(leader: RunningOperator): Promise<RunningOperator | undefined> {
    this.#note(`operator ${leader.number} is told to stop`);
    await leader.stop();
    return this.#operators[leader.number];
  }

  /** Cuts the leader off from the API server until the standby rests. Returns the standby. */
  async #cutOff(leader: RunningOperator): Promise<RunningOperator | undefined> {
    this.#note(`operator ${leader.number} is cut off`);
    const { promise, resolve } = Promise.withResolvers<void>();
    const faults = [
      leader.proxy.inject({ type: 'delayed', until: () => promise }),
      leader.proxy.inject({ type: 'hold', expires: false }, { on: isWatch }),
    ];
    leader.isCutOff = true;
    this.#hold(() => {
      leader.isCutOff = false;
      resolve();
      for (const fault of faults) fault.off();
    });
    await leader.loseLease(3000 * leaseTimings.renewDeadlineSeconds);
    this.#note(`operator ${leader.number} has lost its Lease`);
    return this.#operators[leader.number];
  }

  #onResponse(request: ProxiedRequest, response: ObservedResponse | undefined, operator: RunningOperator): void {
    if (isWatch(request) || request.resource === leases) return;
    operator.inFlight -= 1;
    this.#lastActivityAtMs = performance.now();
    if (request.verb === 'list' && response?.status === 200) this.#onPastList(request, response, operator);
    if (!isCounted(request)) return;
    const isReport = response?.status === 200 && request.path.endsWith('/status');
    const reported = isReport ? readinessOf(JSON.parse(response.body)) : '';
    this.#note(`  ${response?.status ?? 'not sent'}: ${this.#describe(request)}${reported}`);
    if (response === undefined) return;
    const canonicalName = (name: string): string => this.#canonicalName(name);
    const isLastStep = this.#step === Object.keys(this.#scenario.steps).at(-1);
    this.#changes.record(request, response, { canonicalName, step: this.#step, isLastStep });
  }

  /** An operator in the past lists without a watch. */
  #onPastList({ resource }: ProxiedRequest, { body }: ObservedResponse, operator: RunningOperator): void {
    const kind = this.#scenario.kinds.find(({ plural }) => plural === resource)?.kind;
    if (kind === undefined || this.#past === undefined) return;
    const { items }: { readonly items: readonly KubeObject[] } = JSON.parse(body);
    for (const { metadata } of items) {
      const { uid, resourceVersion, namespace } = metadata;
      // An operator that reconciles all namespaces also lists what earlier plans had left in theirs.
      if (namespace !== this.#namespace) continue;
      operator.observed.set(uid, { kind, resourceVersion, isListed: true });
    }
  }

  #onEvent(line: string, operator: RunningOperator): void {
    const { type, object } = JSON.parse(line);
    // What the API server still sends to an operator that has crashed, nobody receives.
    if (operator.hasCrashed || type === 'BOOKMARK' || type === 'ERROR' || object.kind === 'Lease') return;
    const { name, namespace, resourceVersion, uid } = object.metadata;
    if (namespace !== this.#namespace) return;
    this.#lastActivityAtMs = performance.now();
    this.#requestsBeforeEvent ??= this.#requests.length;
    this.eventKinds.set(this.#step, (this.eventKinds.get(this.#step) ?? new Set()).add(object.kind));
    const isListed = this.#scenario.kinds.some(({ kind }) => kind === object.kind);
    if (type === 'DELETED') operator.observed.delete(uid);
    else operator.observed.set(uid, { kind: object.kind, resourceVersion, isListed });
    if (this.#scenario.changesDefinitions !== true && controllerOf(object) === undefined) {
      const wrong = this.#transitionTimes.observe(type, object);
      if (wrong !== undefined) this.fail(new Error(wrong));
    }
    this.#note(
      `operator ${operator.number} receives ${type} ${object.kind} ${name} at ${resourceVersion}${readinessOf(object)}`,
    );
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

const leases = 'leases';

type Handover = 'stopped' | 'cut-off';

/** Whether a standby takes over. */
const isHandover = (perturbation: WritePerturbation | ViewPerturbation): perturbation is Handover =>
  perturbation === 'stopped' || perturbation === 'cut-off';

/** `: Ready is False, NameTaken`, to append to a line of the timeline; empty for an object that reports nothing. */
function readinessOf({ status }: { readonly status?: { readonly conditions?: readonly Condition[] } }): string {
  const ready = findCondition(status?.conditions, 'Ready');
  return ready === undefined ? '' : `: Ready is ${ready.status}, ${ready.reason}`;
}

/** A dry run changes nothing. */
const isCounted = (request: ProxiedRequest): boolean => isWrite(request) && !request.query.has('dryRun');

/** The version of the cluster. */
async function versionOf({ client, namespace }: ScenarioWorld, kinds: readonly Kind[]): Promise<string | undefined> {
  const lists = kinds.slice(0, 1).map((kind) => client.list(kind, { namespace, limit: 1 }));
  const [list] = await Promise.all(lists);
  return list?.metadata.resourceVersion;
}

async function newNamespace(client: Client): Promise<string> {
  const name = `perturb-${randomBytes(5).toString('hex')}`;
  await client.create(Namespace, { metadata: { name } });
  return name;
}
