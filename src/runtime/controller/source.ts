import { setTimeout as delay } from 'node:timers/promises';
import { Backoff } from '../cache/index.ts';
import type { ObjectKey } from '../kind/index.ts';
import type { Logger } from '../observability/index.ts';
import type { Enqueue } from './watch.ts';

/**
 * Where keys come from that no watch of the API server tells of: a queue, a stream, a clock.
 *
 * - A function is called once the caches have synced, and calls `enqueue` for as long as it likes; it may return at
 *   once. The signal is aborted when the controller stops: let go of everything then.
 * - An async iterable yields the keys; when the controller stops it is returned from.
 *
 * One that throws or rejects is begun again after a pause (0.8 s, doubling to 30 s) and is logged. One that ends is not.
 *
 * @example
 * sources: [(enqueue, signal) => {
 *   mailbox.on('message', ({ widget }) => enqueue(widget));
 *   signal.addEventListener('abort', () => mailbox.close());
 * }]
 */
export type EventSource = AsyncIterable<ObjectKey> | ((enqueue: Enqueue, signal: AbortSignal) => void | Promise<void>);

/** Runs a source until it ends or the signal is aborted, whatever the source makes of that; never throws. */
export async function runSource(
  source: EventSource,
  { enqueue, signal, log }: { readonly enqueue: Enqueue; readonly signal: AbortSignal; readonly log: Logger },
): Promise<void> {
  const backoff = new Backoff({ initialMs: 800, maxMs: 30_000 });
  const stopped = new Promise<undefined>((resolve) => {
    signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });
  while (!signal.aborted) {
    try {
      if (typeof source === 'function') await Promise.race([source(enqueue, signal), stopped]);
      else await iterate(source, enqueue, stopped);
      return;
    } catch (error) {
      if (signal.aborted) return;
      const waitMs = Math.round(backoff.next());
      log.warn({ err: error, waitMs }, 'an event source failed: trying again');
      await delay(waitMs, undefined, { signal }).catch(() => {});
    }
  }
}

async function iterate(source: AsyncIterable<ObjectKey>, enqueue: Enqueue, stopped: Promise<undefined>): Promise<void> {
  const iterator = source[Symbol.asyncIterator]();
  for (;;) {
    const step = await Promise.race([iterator.next(), stopped]);
    if (step === undefined) {
      // A generator that waits for its next key returns only when that has come: nobody waits for it.
      iterator.return?.().catch(() => {});
      return;
    }
    if (step.done) return;
    enqueue(step.value);
  }
}
