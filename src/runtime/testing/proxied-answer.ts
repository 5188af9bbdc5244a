import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { Fault, InjectedFault } from './fault.ts';
import { isWatch, type ProxiedRequest } from './proxied-request.ts';

const newline = '\n'.charCodeAt(0);

/** An answer on its way from the API server to the client, which a fault may strike at any moment. */
export class ProxiedAnswer {
  readonly request: ProxiedRequest;
  readonly #upstream: IncomingMessage;
  readonly #client: ServerResponse;
  readonly #reset: () => void;
  /** Waits for the next bytes. */
  #pending: InjectedFault | undefined;
  #slowedBy: InjectedFault | undefined;
  #withinLine = false;
  #passedBytes = 0;
  /** Nothing more of it may be passed on. */
  #broken = false;

  /** @param reset resets the client's connection. */
  constructor(request: ProxiedRequest, upstream: IncomingMessage, client: ServerResponse, reset: () => void) {
    this.request = request;
    this.#upstream = upstream;
    this.#client = client;
    this.#reset = reset;
    upstream.on('data', (chunk: Buffer) => this.#pass(chunk));
    upstream.on('end', () => {
      if (!this.#broken) client.end();
    });
    // The server broke off: so does the answer.
    upstream.on('error', () => client.destroy());
  }

  /** Has a fault happen to it: at once, or as soon as it can. */
  strike(injected: InjectedFault, moment: 'beginning' | 'under way'): void {
    switch (injected.fault.type) {
      case 'silence':
        if (injected.struck()) this.#break();
        break;
      case 'slow':
        if (injected.struck()) this.#slowedBy = injected;
        break;
      case 'cut':
        if (moment === 'under way' && this.#isResetAtOnce(injected.fault) && injected.struck()) this.#reset();
        else this.#pending = injected;
        break;
      case 'error-event':
        if (this.#withinLine) this.#pending = injected;
        else this.#endByEvent(injected);
        break;
    }
  }

  #isResetAtOnce({ how, afterBytes = 0 }: Fault & { type: 'cut' }): boolean {
    return how === 'reset' && isWatch(this.request) && this.#passedBytes >= afterBytes;
  }

  #pass(chunk: Buffer): void {
    const pending = this.#pending;
    if (pending === undefined || pending.ended.aborted) {
      this.#write(chunk);
    } else if (pending.fault.type === 'cut') {
      this.#cut(pending, pending.fault, chunk);
    } else {
      const lineEnd = chunk.indexOf(newline);
      this.#write(lineEnd === -1 ? chunk : chunk.subarray(0, lineEnd + 1));
      if (lineEnd !== -1) this.#endByEvent(pending);
    }
  }

  #write(chunk: Buffer): void {
    this.#withinLine = chunk[chunk.length - 1] !== newline;
    this.#passedBytes += chunk.length;
    const taken = this.#client.write(chunk);
    if (this.#slowedBy !== undefined && !this.#slowedBy.ended.aborted) this.#rest(this.#slowedBy, chunk.length);
    else if (!taken) this.#waitForClient();
  }

  /** What is not read here fills the buffers up to the server, as with a client that is slow itself. */
  #rest(slowedBy: InjectedFault, bytes: number): void {
    if (slowedBy.fault.type !== 'slow') return;
    this.#upstream.pause();
    const waitMs = (bytes / slowedBy.fault.bytesPerSecond) * 1000;
    const resume = (): void => void this.#upstream.resume();
    delay(waitMs, undefined, { signal: slowedBy.ended }).then(resume, resume);
  }

  #waitForClient(): void {
    this.#upstream.pause();
    this.#client.once('drain', () => this.#upstream.resume());
  }

  #cut(injected: InjectedFault, { how, afterBytes = 0 }: Fault & { type: 'cut' }, chunk: Buffer): void {
    const from = Math.max(0, afterBytes - this.#passedBytes);
    if (from >= chunk.length || !injected.struck()) {
      this.#write(chunk);
      return;
    }
    this.#break();
    const lineEnd = chunk.indexOf(newline, from);
    const half = chunk.subarray(0, Math.ceil((from + (lineEnd === -1 ? chunk.length : lineEnd)) / 2));
    if (how === 'end') this.#client.end(half);
    else this.#client.write(half, () => this.#reset());
  }

  #break(): void {
    this.#broken = true;
    this.#upstream.pause().removeAllListeners('data');
  }

  #endByEvent(injected: InjectedFault): void {
    const { fault } = injected;
    this.#pending = undefined;
    if (fault.type !== 'error-event' || !injected.struck()) return;
    this.#break();
    const object = statusObject(fault.status, fault.reason);
    this.#client.end(`${JSON.stringify({ type: 'ERROR', object })}\n`);
  }
}

/** A refusal in the API server's words. */
export function statusObject(code: number, reason: string): object {
  const message = `the fault proxy says ${reason}`;
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', code, reason, message };
}
