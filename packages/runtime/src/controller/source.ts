import type { ObjectKey } from '../kind/object.ts';
import { Backoff } from '../shared/backoff.ts';
import type { Logger } from '../shared/logger.ts';
import { pause } from '../shared/pause.ts';
import type { Enqueue } from './watch.ts';

/**
 * A source of keys other than a watch: a message queue, a stream, a clock.
 *
 * The function is called when the caches have synced. The signal is aborted when the controller stops, and when this
 * call has failed. Release all resources then.
 *
 * - Either the function calls `enqueue`, possibly after it has returned.
 * - Or it returns an async iterable of keys, such as a generator. When the controller stops, `return()` is called on
 *   the iterable.
 *
 * If the function or its iterable throws or rejects, the error is logged, and the function is called again after a
 * pause. The pause is 0.8 s and doubles up to 30 s, with ±50 % jitter. It is 0.8 s again after the function has run for
 * a minute. A source that ends is not called again.
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
export type KeySource = (
  enqueue: Enqueue,
  signal: AbortSignal,
) => AsyncIterable<ObjectKey> | Promise<void> | undefined | void;

/** Runs a source until it ends or the signal is aborted, even if the source ignores the signal. Never rejects. */
export async function runSource(
  source: KeySource,
  { enqueue, signal, log }: { readonly enqueue: Enqueue; readonly signal: AbortSignal; readonly log: Logger },
): Promise<void> {
  const backoff = new Backoff({ initialMs: 800, maxMs: 30_000 });
  while (!signal.aborted) {
    const startedAtMs = performance.now();
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
      if (performance.now() - startedAtMs >= 60_000) backoff.reset();
      const waitMs = Math.round(backoff.next());
      log.warn({ err: error, waitMs }, 'a key source failed: trying again');
      await pause(waitMs, signal);
    }
  }
}

const isAsyncIterable = (value: unknown): value is AsyncIterable<ObjectKey> =>
  typeof value === 'object' && value !== null && Symbol.asyncIterator in value;

/** If `enqueue` throws, the loop calls `return()` on the iterator; if the signal is aborted, the listener does. */
async function iterate(source: AsyncIterable<ObjectKey>, enqueue: Enqueue, signal: AbortSignal): Promise<void> {
  const iterator = source[Symbol.asyncIterator]();
  // A generator that awaits its next key returns only after that key: do not await `return()`.
  signal.addEventListener('abort', () => iterator.return?.().catch(() => {}), { once: true });
  for await (const key of { [Symbol.asyncIterator]: () => iterator }) {
    if (signal.aborted) return;
    enqueue(key);
  }
}
