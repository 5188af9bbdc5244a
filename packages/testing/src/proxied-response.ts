import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { type Fault, InjectedFault } from './fault.ts';
import { isWatch, type ProxiedRequest } from './proxied-request.ts';

const newline = '\n'.charCodeAt(0);

/** A response that the proxy forwards from the API server to the client. A fault may affect it at any time. */
export class ProxiedResponse {
  readonly request: ProxiedRequest;
  readonly #upstream: IncomingMessage;
  readonly #client: ServerResponse;
  readonly #reset: () => void;
  /** A fault that takes effect at the next bytes. */
  #pending: InjectedFault | undefined;
  #slowedBy: InjectedFault | undefined;
  #isHeld = false;
  /** Resolves when every delayed write is done. */
  #delayed: Promise<void> = Promise.resolve();
  #isWithinLine = false;
  #forwardedBytes = 0;
  /** True when nothing more may be forwarded. */
  #isStopped = false;

  /** @param reset resets the client's connection. */
  constructor(request: ProxiedRequest, upstream: IncomingMessage, client: ServerResponse, reset: () => void) {
    this.request = request;
    this.#upstream = upstream;
    this.#client = client;
    this.#reset = reset;
    upstream.on('data', (chunk: Buffer) => this.#forward(chunk));
    // A short response ends while its only chunk is delayed: a paused stream still emits `end`.
    upstream.on('end', () => {
      void this.#delayed.then(() => {
        if (!this.#isStopped) client.end();
      });
    });
    // The server aborted the response, so abort the client's response too.
    upstream.on('error', () => client.destroy());
  }

  /** Applies a fault now or, if the fault needs data or the end of a line, at the next bytes. */
  applyFault(injected: InjectedFault, moment: 'start' | 'in flight'): void {
    switch (injected.fault.type) {
      case 'silence':
        if (injected.tryCount()) this.#stopForwarding();
        break;
      case 'slow':
        if (injected.tryCount()) this.#slowedBy = injected;
        break;
      case 'cut':
        if (moment === 'in flight' && this.#mustResetAtOnce(injected.fault) && injected.tryCount()) this.#reset();
        else this.#pending = injected;
        break;
      case 'hold':
        if (injected.tryCount()) this.#hold(injected, injected.fault.expires);
        break;
      case 'error-event':
        if (this.#isWithinLine) this.#pending = injected;
        else this.#endWithErrorEvent(injected);
        break;
    }
  }

  #hold({ ended }: InjectedFault, expires: boolean): void {
    this.#isHeld = true;
    this.#upstream.pause();
    const release = (): void => {
      this.#isHeld = false;
      if (expires) {
        this.applyFault(new InjectedFault({ type: 'error-event', status: 410, reason: 'Expired' }, {}), 'in flight');
      }
      if (!this.#isStopped) this.#upstream.resume();
    };
    if (ended.aborted) release();
    else ended.addEventListener('abort', release, { once: true });
  }

  #mustResetAtOnce({ how, afterBytes = 0 }: Fault & { type: 'cut' }): boolean {
    return how === 'reset' && isWatch(this.request) && this.#forwardedBytes >= afterBytes;
  }

  #forward(chunk: Buffer): void {
    const pending = this.#pending;
    if (pending === undefined || pending.ended.aborted) {
      this.#write(chunk);
    } else if (pending.fault.type === 'cut') {
      this.#cut(pending, pending.fault, chunk);
    } else {
      const lineEnd = chunk.indexOf(newline);
      this.#write(lineEnd === -1 ? chunk : chunk.subarray(0, lineEnd + 1));
      if (lineEnd !== -1) this.#endWithErrorEvent(pending);
    }
  }

  #write(chunk: Buffer): void {
    this.#isWithinLine = chunk[chunk.length - 1] !== newline;
    this.#forwardedBytes += chunk.length;
    const slowedBy = this.#slowedBy;
    if (slowedBy?.fault.type === 'slow' && !slowedBy.ended.aborted) {
      this.#writeLater(chunk, (chunk.length / slowedBy.fault.bytesPerSecond) * 1000, slowedBy.ended);
    } else if (!this.#client.write(chunk)) {
      this.#waitForClient();
    }
  }

  /** Does not read while it waits, so that the buffers up to the server fill up, as with a slow client. */
  #writeLater(chunk: Buffer, waitMs: number, ended: AbortSignal): void {
    this.#upstream.pause();
    const write = (): void => {
      if (this.#isStopped || this.#client.destroyed) return;
      this.#client.write(chunk);
      this.#upstream.resume();
    };
    this.#delayed = delay(waitMs, undefined, { signal: ended }).then(write, write);
  }

  #waitForClient(): void {
    this.#upstream.pause();
    this.#client.once('drain', () => {
      if (!this.#isHeld) this.#upstream.resume();
    });
  }

  #cut(injected: InjectedFault, { how, afterBytes = 0 }: Fault & { type: 'cut' }, chunk: Buffer): void {
    const from = Math.max(0, afterBytes - this.#forwardedBytes);
    if (from >= chunk.length || !injected.tryCount()) {
      this.#write(chunk);
      return;
    }
    this.#stopForwarding();
    const lineEnd = chunk.indexOf(newline, from);
    const half = chunk.subarray(0, Math.ceil((from + (lineEnd === -1 ? chunk.length : lineEnd)) / 2));
    if (how === 'end') this.#client.end(half);
    else this.#client.write(half, () => this.#reset());
  }

  #stopForwarding(): void {
    this.#isStopped = true;
    this.#upstream.pause().removeAllListeners('data');
  }

  #endWithErrorEvent(injected: InjectedFault): void {
    const { fault } = injected;
    this.#pending = undefined;
    if (fault.type !== 'error-event' || !injected.tryCount()) return;
    this.#stopForwarding();
    const object = statusObject(fault.status, fault.reason);
    this.#client.end(`${JSON.stringify({ type: 'ERROR', object })}\n`);
  }
}

/** Creates a Status as the API server sends it. */
export function statusObject(code: number, reason: string): object {
  const message = `the fault proxy says ${reason}`;
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', code, reason, message };
}
