import { PodSet } from '../../api/index.ts';
import {
  type Applier,
  claim,
  done,
  type EventRecorder,
  keyString,
  type ObjectKey,
  type ReadonlyStore,
  type ReconcileContext,
  type Result,
  requeueAfter,
  TerminalError,
} from '../../runtime/index.ts';
import { Pod } from '../built-in-kinds.ts';
import { isRefusal } from '../refusal.ts';
import { reportReady } from '../report-ready.ts';
import { Memories } from './memory.ts';
import { type Failure, hindranceOf, isInvalidTemplate } from './pod-refusal.ts';
import { isActive, isSelected } from './pod-set-pod.ts';
import { invalidReport, readyReport } from './pod-set-status.ts';
import { PodSetTurn } from './pod-set-turn.ts';

/** What the reconciler reads and writes by. */
export interface PodSetReconcilerOptions {
  readonly sets: ReadonlyStore<PodSet>;
  readonly pods: ReadonlyStore<Pod>;
  /** The pods of a namespace that have a PodSet's labels, whoever owns them. */
  readonly labelled: (set: PodSet) => Iterable<Pod>;
  readonly applier: Applier;
  readonly events: EventRecorder;
}

/**
 * Keeps as many pods as a PodSet asks for, of its template. What it has written it sees before it looks again, so it
 * never makes or deletes one too many.
 */
export class PodSetReconciler {
  readonly #options: PodSetReconcilerOptions;
  readonly #memories = new Memories();

  constructor(options: PodSetReconcilerOptions) {
    this.#options = options;
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<Result> {
    const set = this.#options.sets.get(key);
    // Its pods go with it: the garbage collector follows the owner references.
    if (set === undefined || set.metadata.deletionTimestamp !== undefined) {
      this.#memories.forget(keyString(key));
      return done;
    }
    const { events, applier, pods: store } = this.#options;
    // One that was stored under another definition, which let it do without.
    if (typeof (set.spec as Partial<PodSet['spec']> | undefined)?.replicas !== 'number') {
      await reportReady(events, PodSet, set, invalidReport(set, 'spec.replicas is missing', new Date()), context);
      return done;
    }
    const { claimed: pods, failures } = await this.#claim(set, context);
    const memory = this.#memories.of(keyString(key));
    const turn = new PodSetTurn({ set, pods, store, applier, client: context.client, memory });
    await turn.take();
    failures.push(...turn.failures);
    this.#note(set, 'PodsMade', turn.made);
    this.#note(set, 'PodsRemoved', turn.removed);
    const hindrance = hindranceOf(failures, turn.hindrance);
    const report = readyReport(set, { active: turn.active, hindrance }, new Date());
    await reportReady(events, PodSet, set, report, context);
    throwFirst(failures);
    return turn.dueInMs === undefined ? done : requeueAfter(turn.dueInMs);
  }

  /** Its pods, and what kept it from adopting or releasing others. */
  async #claim(
    set: PodSet,
    { client }: ReconcileContext,
  ): Promise<{ readonly claimed: readonly Pod[]; readonly failures: Failure[] }> {
    const own = this.#options.pods.byOwner(set.metadata.uid);
    // One that has ended is of no use to anybody but its last owner.
    const labelled = [...this.#options.labelled(set)].filter(isActive);
    const { claimed, errors } = await claim({
      client,
      ownerKind: PodSet,
      owner: set,
      childKind: Pod,
      candidates: new Set([...own, ...labelled]),
      matches: (pod) => isSelected(set, pod),
    });
    // How many there are is not known: a pod that has changed since may be ours by now.
    const unsure = errors.filter((error) => !isRefusal(error));
    if (unsure.length > 0) throw unsure[0];
    return { claimed, failures: errors.map((error) => ({ doing: 'claiming', error })) };
  }

  #note(set: PodSet, reason: 'PodsMade' | 'PodsRemoved', pods: readonly Pod[]): void {
    if (pods.length === 0) return;
    const note = `${reason === 'PodsMade' ? 'made' : 'removed'} ${namesOf(pods)}`;
    this.#options.events.record(PodSet, set, { type: 'Normal', reason, action: 'Reconcile', note });
  }
}

/** An Event is short. */
function namesOf(pods: readonly Pod[]): string {
  const names = pods.map(({ metadata }) => metadata.name);
  const more = names.splice(3).length;
  return more === 0 ? names.join(', ') : `${names.join(', ')} and ${more} more`;
}

/** What may be otherwise next time is tried again; a template that is wrong is so until it is changed. */
function throwFirst(failures: readonly Failure[]): void {
  const isTerminal = ({ doing, error }: Failure): boolean => doing === 'making' && isInvalidTemplate(error);
  const passing = failures.find((failure) => !isTerminal(failure));
  if (passing !== undefined) throw passing.error;
  const [first] = failures;
  if (first !== undefined && isInvalidTemplate(first.error)) {
    throw new TerminalError(first.error.message, { cause: first.error });
  }
}
