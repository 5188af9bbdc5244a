import { setTimeout as delay } from 'node:timers/promises';
import { Backoff } from '../cache/backoff.ts';
import type { ObjectKey } from '../kind/index.ts';
import type { Logger } from '../observability/index.ts';
import type { Enqueue } from './watch.ts';

/**
 * Where keys come from that no watch of the API server tells of: a queue, a stream, a clock.
 *
 * The function is called once the caches have synced. The signal is aborted when the controller stops, and when this call
 * has failed: let go of everything then.
 *
 * - It calls `enqueue` for as long as it likes, and may return at once.
 * - Or it returns an async iterable that yields the keys, as a generator does. When the controller stops that is returned
 *   from.
 *
 * If it throws, rejects, or its iterable does, it is called again after a pause (0.8 s, doubling to 30 s), and that is
 * logged. One that ends is not called again.
 *
 * @example
 * sources: [(enqueue, signal) => {
 *   mailbox.on('message', ({ widget }) => enqueue(widget));
 *   signal.addEventListener('abort', () => mailbox.close());
 * }]
 *
 * @example
 * sources: [async function* () {
 *   for await (const { widget } of messages()) yield { namespace: 'default', name: widget };
 * }]
 */
export type EventSource = (
  enqueue: Enqueue,
  signal: AbortSignal,
) => AsyncIterable<ObjectKey> | Promise<void> | undefined | void;

/** Runs a source until it ends or the signal is aborted, whatever the source makes of that; never throws. */
export async function runSource(
  source: EventSource,
  { enqueue, signal, log }: { readonly enqueue: Enqueue; readonly signal: AbortSignal; readonly log: Logger },
): Promise<void> {
  const backoff = new Backoff({ initialMs: 800, maxMs: 30_000 });
  while (!signal.aborted) {
    const failed = new AbortController();
    const either = AbortSignal.any([signal, failed.signal]);
    const ended = new Promise<void>((resolve) => {
      either.addEventListener('abort', () => resolve(), { once: true });
    });
    try {
      const running = source(enqueue, either);
      await Promise.race([isAsyncIterable(running) ? iterate(running, enqueue, either) : running, ended]);
      return;
    } catch (error) {
      failed.abort(error);
      if (signal.aborted) return;
      const waitMs = Math.round(backoff.next());
      log.warn({ err: error, waitMs }, 'an event source failed: trying again');
      await delay(waitMs, undefined, { signal }).catch(() => {});
    }
  }
}

const isAsyncIterable = (value: unknown): value is AsyncIterable<ObjectKey> =>
  typeof value === 'object' && value !== null && Symbol.asyncIterator in value;

/** If `enqueue` throws, the loop returns from the iterator; if the signal is aborted, the listener does. */
async function iterate(source: AsyncIterable<ObjectKey>, enqueue: Enqueue, signal: AbortSignal): Promise<void> {
  const iterator = source[Symbol.asyncIterator]();
  // A generator that waits for its next key returns only when that has come: nobody waits for it.
  signal.addEventListener('abort', () => iterator.return?.().catch(() => {}), { once: true });
  for await (const key of { [Symbol.asyncIterator]: () => iterator }) {
    if (signal.aborted) return;
    enqueue(key);
  }
}
