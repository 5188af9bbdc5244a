import { randomBytes } from 'node:crypto';
import type { Client, ConnectedClient } from '@echoperator/runtime/client';
import { Namespace } from '@echoperator/runtime/kinds';
import { eventually } from '../eventually.ts';
import { differenceOf, type Facts } from '../facts.ts';
import type { ObservedResponse } from '../fault-proxy.ts';
import { isWatch, isWrite, type ProxiedRequest } from '../proxied-request.ts';
import type { SentTimes } from '../sent-times.ts';
import { Activity } from './activity.ts';
import { describe, readinessOf } from './descriptions.ts';
import { ObjectHistory } from './history.ts';
import { maxTransitMs, type RunningOperator } from './operator.ts';
import { Operators } from './operators.ts';
import { changesIn } from './oracles.ts';
import { viewPerturbations, writePerturbations } from './perturbations/by-name.ts';
import type { Check, Perturbation, PerturbedRun } from './perturbations/perturbation.ts';
import { discarded } from './perturbations/write-fault.ts';
import { type LearnedWrite, type Plan, withoutGenerations } from './plans.ts';
import { Recording } from './recording.ts';
import type { ExternalWrite, PerturbOptions, Scenario, ScenarioWorld } from './scenario.ts';
import { canonicalNameIn, stateOf } from './state.ts';
import { Timeline } from './timeline.ts';
import { Violations } from './violations.ts';

export type RunOptions = PerturbOptions & { readonly client: ConnectedClient; readonly sentTimes: SentTimes };

/** The operator rests if it has sent nothing for this time: it may write its progress once a second. */
const quietMs = 1100;

/** An undisturbed run has no expected state to wait for, so it waits longer. */
const learningQuietMs = 1500;

/** What a perturbation holds back arrives after this time, even if the step has not ended. */
const releaseMs = 3000;

/** After an undisturbed or perturbed step, the operator must not send anything for this time. */
const restMs = 2000;

/** How many times that is tried, if something else changes the objects meanwhile. */
const maxRests = 5;

/**
 * An execution of a scenario in a new namespace: takes the steps, waits after each until the operator rests, and
 * judges. What a perturbation does is in its class.
 */
export class Run implements PerturbedRun {
  readonly scenario: Scenario;
  readonly recording: Recording = new Recording();
  readonly #options: RunOptions;
  readonly #plan: Plan | undefined;
  readonly #perturbation: Perturbation | undefined;
  readonly #operators: Operators;
  readonly #timeline = new Timeline();
  readonly #activity = new Activity();
  readonly #violations: Violations;
  #world: ScenarioWorld;
  /** The write of the plan, until the operator sends it. */
  #plannedWrite: LearnedWrite | undefined;
  /** Releases what the perturbation holds back until the operator rests. */
  #release: (() => void) | undefined;

  /** @param plan undefined: undisturbed */
  constructor(scenario: Scenario, options: RunOptions, plan?: Plan) {
    this.scenario = scenario;
    this.#options = options;
    this.#plan = plan;
    this.#world = { client: options.client, namespace: '' };
    this.#violations = new Violations(scenario, this.#timeline);
    this.#perturbation = plan && perturbationOf(plan, this);
    this.#plannedWrite = plan?.target.type === 'write' ? plan.target.write : undefined;
    this.#operators = new Operators(
      { ...options, scenario, hasStandby: this.#perturbation?.hasStandby ?? false },
      {
        note: (line) => this.note(line),
        starts: (proxy) => this.#perturbation?.onStart?.(proxy),
        sends: (request, operator, clientPort) => this.#onRequest(request, operator, clientPort),
        receives: (request, response, operator) => this.#onResponse(request, response, operator),
        receivesEvent: (line, operator) => this.#onEvent(line, operator),
        watchEnds: () => this.#activity.watchEnds(),
        externalWrite: (description, operator) => this.#onExternalWrite(description, operator),
      },
    );
  }

  /** The writes of the operator, the events that it received, and what the kit did, one per line. */
  get timeline(): string {
    return this.#timeline.text;
  }

  /** Whether the perturbation has taken place. */
  get isHit(): boolean {
    return this.#perturbation?.isHit ?? false;
  }

  get world(): ScenarioWorld {
    return this.#world;
  }

  note(line: string): void {
    this.#timeline.note(line);
  }

  fail(violation: Error): void {
    this.#violations.add(violation);
  }

  noteActivity(): void {
    this.#activity.noteActivity();
  }

  hold(release: () => void): void {
    this.holdUntilRest(release);
    setTimeout(() => {
      if (this.#release === release) this.#releaseHeld();
    }, releaseMs);
  }

  holdUntilRest(release: () => void): void {
    this.#release = release;
  }

  handOver(leader: RunningOperator, hasLeft: Promise<void>): void {
    this.#operators.handOver(leader, hasLeft);
  }

  async execute(): Promise<void> {
    const { client, createNamespace = () => newNamespace(client) } = this.#options;
    const namespace = await createNamespace();
    this.#world = { client, namespace };
    const { always, kinds } = this.scenario;
    const history = always && (await ObjectHistory.start(client, kinds, namespace));
    try {
      await this.#operators.start(namespace);
      await this.#settle('the operator has started');
      await this.#operators.startStandby(namespace);
      for (const [step, act] of this.#stepsToTake()) await this.#take(step, act);
      this.#checkChanges();
      await this.#operators.checkHealth();
      await this.#violations.checked();
      if (always !== undefined && this.#isChecked('always')) history?.check(always());
      if (this.#violations.first !== undefined) throw this.#violations.first;
    } catch (error) {
      throw this.#violations.first ?? error;
    } finally {
      await Promise.allSettled([history?.stop(), this.#violations.checked()]);
      try {
        await this.#operators.stop();
      } finally {
        // Without a namespace controller, the objects would stay, and the operator of another run might find them.
        await Promise.all(kinds.map((kind) => client.deleteCollection(kind, { namespace })));
        await client.delete(Namespace, { name: namespace });
      }
    }
  }

  /** A perturbed run goes from its step straight to the last one, which deletes everything. */
  #stepsToTake(): readonly (readonly [name: string, act: Scenario['steps'][string]])[] {
    const steps = Object.entries(this.scenario.steps);
    const perturbed = steps.findIndex(([name]) => name === this.#plan?.step.name);
    return this.#plan === undefined
      ? steps
      : [...steps.slice(0, perturbed + 1), ...steps.slice(perturbed + 1).slice(-1)];
  }

  async #take(step: string, act: Scenario['steps'][string]): Promise<void> {
    this.recording.step = step;
    this.note(`step ${step}`);
    this.#activity.stepBegins();
    const perturbation = this.#isInPlannedStep ? this.#perturbation : undefined;
    const operator = this.#operators.current;
    if (operator !== undefined) await perturbation?.beforePlannedStep?.(operator);
    try {
      await act(this.#world);
      this.noteActivity();
      await this.#end(step);
    } finally {
      perturbation?.afterPlannedStep?.();
    }
  }

  get #isInPlannedStep(): boolean {
    return this.#plan?.step.name === this.recording.step;
  }

  #isChecked(check: Check): boolean {
    return this.#perturbation?.unchecked?.includes(check) !== true;
  }

  #releaseHeld(): void {
    const release = this.#release;
    if (release === undefined) return;
    this.#release = undefined;
    this.noteActivity();
    this.note('what was held back arrives');
    release();
  }

  /**
   * Waits until the operator rests after a step. A controller of the cluster may be late and change an object: then it
   * waits again.
   */
  async #end(step: string): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      await this.#settle(`step ${step} has ended`);
      if (this.#plan !== undefined && !this.#isInPlannedStep) return;
      const { sent, hasReason } = await this.#activity.observe(restMs);
      if (sent.length === 0) return;
      if (hasReason && attempt < maxRests) continue;
      const what = `${sent.length} requests in ${restMs} ms although nothing changes`;
      throw new Error(`the operator sends ${what}: ${sent.join(', ')}`);
    }
  }

  /** Waits until the operator rests, and the objects are as expected. */
  async #settle(description: string): Promise<void> {
    const learned = this.#plan?.learned.steps.find(({ name }) => name === this.recording.step)?.state;
    const comparable = (facts: Facts): Facts => (this.#isChecked('generations') ? facts : withoutGenerations(facts));
    let state: Facts = new Map();
    const isSettled = async (): Promise<boolean> => {
      await this.scenario.meanwhile?.(this.#world);
      await this.#operators.ready();
      if (this.#isInPlannedStep && this.#plannedWrite !== undefined && !this.#plan?.mayMiss) {
        throw new Error('the write to perturb has not been sent');
      }
      if (!this.#isQuiet) throw new Error('the operator sends requests');
      if (this.#release !== undefined) {
        this.#releaseHeld();
        throw new Error('what was held back has just arrived');
      }
      if (await this.#operators.current?.isIdle()) await this.#perturbation?.onIdle?.();
      state = await stateOf(this.scenario, this.#world, this.#operators.current?.observed ?? new Map());
      const difference = learned && differenceOf(comparable(learned), comparable(state));
      if (difference !== undefined) throw new Error(difference);
      const isIdle = await this.#operators.current?.isIdle();
      // Again, because the list took time.
      return isIdle === true && this.#isQuiet;
    };
    await eventually(description, isSettled, this.#options.timeoutMs ?? 30_000);
    this.recording.setState(state);
  }

  get #isQuiet(): boolean {
    if (this.#perturbation?.isPending === true || this.#operators.hasRequestInFlight) return false;
    return this.#activity.isQuiet(this.#plan === undefined ? learningQuietMs : quietMs);
  }

  #checkChanges(): void {
    if (this.#plan === undefined || !this.#isChecked('changes')) return;
    const taken = this.#stepsToTake().map(([name]) => name);
    // If steps were skipped, the last one has something else to delete.
    const isWhole = taken.length === Object.keys(this.scenario.steps).length;
    const compared = isWhole ? taken : taken.slice(0, -1);
    const [learned, own] = [this.#plan.learned.changes, this.recording.changes.facts];
    const difference = differenceOf(changesIn(compared, learned), changesIn(compared, own));
    if (difference !== undefined) throw new Error(difference);
  }

  #onRequest(request: ProxiedRequest, operator: RunningOperator, clientPort: number | undefined): void {
    const description = describe(request, this.scenario);
    this.#activity.sends(description);
    if (isWatch(request)) this.#perturbation?.onWatch?.(request);
    if (!isCounted(request)) return;
    const sentAtMs = this.#options.sentTimes.of(clientPort) ?? performance.now();
    this.#checkGate(description, operator, sentAtMs);
    if (this.#isPlanned(description, operator)) this.#perturbation?.onPlannedWrite?.(request, operator);
  }

  #onExternalWrite(description: string, operator: RunningOperator): ExternalWrite {
    this.#activity.sends(description);
    this.#checkGate(description, operator, performance.now() - maxTransitMs);
    if (operator.hasCrashed) return discarded;
    const write: ExternalWrite = {
      isForwarded: Promise.resolve(true),
      respond: () => {
        this.noteActivity();
        this.note(`  responded: ${description}`);
        this.#violations.checkExternal(this.#world.namespace, description);
        return true;
      },
    };
    if (!this.#isPlanned(description, operator)) return write;
    return this.#perturbation?.onPlannedExternalWrite?.(write, operator) ?? write;
  }

  #checkGate(description: string, operator: RunningOperator, sentAtMs: number): void {
    if (!operator.gateClosedBefore(sentAtMs)) return;
    this.fail(new Error(`operator ${operator.number} sends ${description} after its gate has closed`));
  }

  /** Records a write. Returns whether it is that of the plan. */
  #isPlanned(description: string, operator: RunningOperator): boolean {
    this.note(`operator ${operator.number}: ${description}`);
    const occurrence = this.recording.addWrite(description);
    if (!this.#isInPlannedStep) return false;
    this.#perturbation?.onWriteOfPlannedStep?.(operator);
    const planned = this.#plannedWrite;
    if (planned?.description !== description || planned.occurrence !== occurrence) return false;
    this.#plannedWrite = undefined;
    return true;
  }

  #onResponse(request: ProxiedRequest, response: ObservedResponse | undefined, operator: RunningOperator): void {
    this.noteActivity();
    if (request.verb === 'list' && response?.status === 200) this.#perturbation?.onList?.(request, response, operator);
    if (!isCounted(request)) return;
    const isReport = response?.status === 200 && request.path.endsWith('/status');
    const reported = isReport ? readinessOf(JSON.parse(response.body)) : '';
    this.note(`  ${response?.status ?? 'not sent'}: ${describe(request, this.scenario)}${reported}`);
    if (response === undefined) return;
    const canonicalName = (name: string): string => canonicalNameIn(this.scenario, name);
    const { step, changes } = this.recording;
    const isLastStep = step === Object.keys(this.scenario.steps).at(-1);
    changes.record(request, response, { canonicalName, step, isLastStep });
  }

  #onEvent(line: string, operator: RunningOperator): void {
    const { type, object } = JSON.parse(line);
    // What the API server still sends to an operator that has crashed, nobody receives.
    if (operator.hasCrashed || type === 'BOOKMARK' || type === 'ERROR' || object.kind === 'Lease') return;
    const { name, namespace, resourceVersion, uid } = object.metadata;
    if (namespace !== this.#world.namespace) return;
    this.#activity.receivesEvent();
    this.recording.addEvent(object.kind);
    const isListed = this.scenario.kinds.some(({ kind }) => kind === object.kind);
    if (type === 'DELETED') operator.observed.delete(uid);
    else operator.observed.set(uid, { kind: object.kind, resourceVersion, isListed });
    this.#violations.checkEvent(type, object);
    this.note(
      `operator ${operator.number} receives ${type} ${object.kind} ${name} at ${resourceVersion}${readinessOf(object)}`,
    );
  }
}

function perturbationOf({ target }: Plan, run: PerturbedRun): Perturbation {
  return target.type === 'write'
    ? new writePerturbations[target.perturbation](run)
    : new viewPerturbations[target.perturbation](run, target.kind);
}

/** A dry run changes nothing. */
const isCounted = (request: ProxiedRequest): boolean => isWrite(request) && !request.query.has('dryRun');

async function newNamespace(client: Client): Promise<string> {
  const name = `perturb-${randomBytes(5).toString('hex')}`;
  await client.create(Namespace, { metadata: { name } });
  return name;
}
