import { EventEmitter, once } from 'node:events';
import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import { type Health, ServingStatus } from '../petstore-wire/index.ts';

/** Says by gRPC's health protocol whether the services are served: yes, until {@link HealthState.stop}. */
export class HealthState {
  readonly #services: ReadonlySet<string>;
  readonly #changes = new EventEmitter().setMaxListeners(0);
  #isServing = true;

  /** @param services by their full names; the empty one, the server as a whole, is added. */
  constructor(services: readonly string[]) {
    this.#services = new Set(['', ...services]);
  }

  get isServing(): boolean {
    return this.#isServing;
  }

  /** From now on nothing is served; who watches is told. */
  stop(): void {
    this.#isServing = false;
    this.#changes.emit('change');
  }

  /** The service itself. */
  service(): ServiceImpl<typeof Health> {
    return {
      check: ({ service }) => {
        if (this.#services.has(service)) return { status: this.#status() };
        throw new ConnectError(`there is no service ${JSON.stringify(service)}`, Code.NotFound);
      },
      watch: (request, { signal }) => this.#watch(request.service, signal),
    };
  }

  #status(): ServingStatus {
    return this.#isServing ? ServingStatus.SERVING : ServingStatus.NOT_SERVING;
  }

  async *#watch(service: string, signal: AbortSignal): AsyncGenerator<{ status: ServingStatus }> {
    const isKnown = this.#services.has(service);
    const stopped = this.#isServing ? once(this.#changes, 'change', { signal }) : undefined;
    // It is waited for below, where the client still listens.
    stopped?.catch(() => {});
    yield { status: isKnown ? this.#status() : ServingStatus.SERVICE_UNKNOWN };
    await stopped;
    // The last word: a stream that stayed open would hold up the stop.
    if (isKnown && stopped !== undefined) yield { status: this.#status() };
  }
}
