import { EventEmitter, once } from 'node:events';
import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import { quoteText } from '@echoperator/runtime/client';
import {
  type Health,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from '../wire/generated/grpc/health/v1/health_pb.js';

/** Serves gRPC's health protocol: every service is SERVING until {@link HealthState.stop}. */
export class HealthState {
  readonly #services: ReadonlySet<string>;
  readonly #changes = new EventEmitter().setMaxListeners(0);
  #isServing = true;

  /** @param services full names. The empty name, which means the whole server, is added. */
  constructor(services: readonly string[]) {
    this.#services = new Set(['', ...services]);
  }

  get isServing(): boolean {
    return this.#isServing;
  }

  /** Switches every service to NOT_SERVING and notifies the watchers. */
  stop(): void {
    this.#isServing = false;
    this.#changes.emit('change');
  }

  /** The implementation of the health service. */
  service(): ServiceImpl<typeof Health> {
    return {
      check: ({ service }) => {
        if (this.#services.has(service)) return { status: this.#status() };
        throw new ConnectError(`unknown service ${quoteText(service)}`, Code.NotFound);
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
    // Marks the rejection as handled: the client may disconnect before the await below.
    stopped?.catch(() => {});
    yield { status: isKnown ? this.#status() : ServingStatus.SERVICE_UNKNOWN };
    await stopped;
    // This is the last message. An open stream would delay the shutdown.
    if (isKnown && stopped !== undefined) yield { status: this.#status() };
  }
}
