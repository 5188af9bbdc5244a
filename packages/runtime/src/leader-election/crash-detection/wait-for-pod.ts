import { Reflector } from '../../cache/reflector.ts';
import type { Client } from '../../client/client.ts';
import type { ObjectKey } from '../../kind/object.ts';
import { Pod } from '../../kinds/built-in-kinds.ts';
import type { Logger } from '../../shared/logger.ts';

/** What {@link waitForPod} needs. */
export interface PodWatchOptions {
  readonly client: Pick<Client, 'list' | 'watchBatches'>;
  readonly log: Logger;
}

/**
 * Watches one pod until `find` returns a value, and resolves with that value. Errors of the watch are logged and
 * retried.
 *
 * @throws the signal's reason.
 */
export async function waitForPod<T>(
  { client, log }: PodWatchOptions,
  { namespace, name }: Required<ObjectKey>,
  find: (pod: Pod) => T | undefined,
  signal: AbortSignal,
): Promise<T> {
  const found = Promise.withResolvers<T>();
  const done = new AbortController();
  const check = (pod: Pod): void => {
    const value = find(pod);
    if (value !== undefined) found.resolve(value);
  };
  const reflector = new Reflector<Pod>({
    client,
    kind: Pod,
    selection: { namespace, fieldSelector: `metadata.name=${name}` },
    target: {
      prepare: (pod) => pod,
      replace: (pods) => pods.forEach(check),
      takeEvents: (events) => {
        for (const event of events) if (event.type !== 'BOOKMARK') check(event.object);
      },
    },
    log,
    listing: 'paged',
    backoff: { initialMs: 100, maxMs: 30_000 },
  });
  const running = reflector.run(AbortSignal.any([signal, done.signal]));
  try {
    await Promise.race([found.promise, running]);
    signal.throwIfAborted();
    return await found.promise;
  } finally {
    done.abort();
    await running;
  }
}
