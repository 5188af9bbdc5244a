import { Pet } from '../../api/index.ts';
import {
  type Client,
  type DesiredStatus,
  type EventRecorder,
  type ReconcileContext,
  reportStatus,
} from '../../runtime/index.ts';
import { reportReady } from '../report-ready.ts';
import { type Finding, readyReport } from './pet-status.ts';

type Status = NonNullable<Pet['status']>;

/** A Pet under work, as it is by what was last written of it. Each write is refused where somebody else has written since. */
export class PetRecord {
  #pet: Pet;
  readonly #events: EventRecorder;
  readonly #context: Pick<ReconcileContext, 'client' | 'log'>;

  constructor(pet: Pet, events: EventRecorder, context: Pick<ReconcileContext, 'client' | 'log'>) {
    this.#pet = pet;
    this.#events = events;
    this.#context = context;
  }

  get pet(): Pet {
    return this.#pet;
  }

  get client(): Client {
    return this.#context.client;
  }

  /** Writes into the status what is to be read again after a crash. */
  async write(status: DesiredStatus<Status>): Promise<void> {
    this.#pet = (await reportStatus(this.client, Pet, this.#pet, status)) ?? this.#pet;
  }

  /** The last word of a reconcile: what it has found, and what else of the status changes with it. */
  async report(finding: Finding, rest: Pick<DesiredStatus<Status>, 'id' | 'intent'> = {}): Promise<void> {
    const report = readyReport(this.#pet, finding, rest, new Date());
    await reportReady(this.#events, Pet, this.#pet, report, this.#context);
  }

  /** An Event beside the condition. */
  tell(type: 'Normal' | 'Warning', reason: string, note: string): void {
    this.#context.log.info({ reason }, note);
    this.#events.record(Pet, this.#pet, { type, reason, action: 'Reconcile', note });
  }
}
