import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';

/**
 * Undici publishes here immediately before it writes a request, and immediately after the request has passed its gate.
 */
const channel = 'undici:client:sendHeaders';

/**
 * When the clients of this process sent their last request on each connection. If the process is busy, a server in the
 * same process may receive the request much later.
 */
export class SentTimes implements Disposable {
  /** By the port of the client's end of the connection. */
  readonly #lastSentAtMs = new Map<number, number>();
  readonly #record = (message: unknown): void => {
    const { localPort } = (message as { readonly socket: Socket }).socket;
    if (localPort !== undefined) this.#lastSentAtMs.set(localPort, performance.now());
  };

  constructor() {
    subscribe(channel, this.#record);
  }

  /** Undefined: a client in another process sent the request. */
  of(clientPort: number | undefined): number | undefined {
    return clientPort === undefined ? undefined : this.#lastSentAtMs.get(clientPort);
  }

  [Symbol.dispose](): void {
    unsubscribe(channel, this.#record);
  }
}
