import type { Kind } from '../kind/kind.ts';
import type { KubeObject } from '../kind/object.ts';
import type { Client, List, ListOptions, RequestOptions, Selection } from './client.ts';
import { ResponseTooLargeError } from './exchange.ts';

/** Smaller pages leave less garbage at once (20,000 objects: a peak of 125 MB, not 143) and cost no more CPU. */
const pageSize = 250;

/**
 * 250 pods take about 1 MB. Each worker may read a page at a time, and a parsed page needs several times as much
 * memory.
 */
const maxPageBytes = 4 * 1024 * 1024;

/**
 * Lists in pages, as of one resourceVersion. So the number and the size of the objects do not matter: users may create
 * any number of objects of more than 1 MB each. A page has at most 250 objects and 4 MiB, or one larger object. The
 * next page is requested while the current page is processed.
 *
 * @throws like {@link Client.list}; ApiError with `isExpired` if the server no longer has the version, after some
 *   minutes.
 *
 * @example
 * let restarts = 0;
 * for await (const { items } of listPages(client, Pod)) {
 *   for (const { status } of items) restarts += status?.containerStatuses?.[0]?.restartCount ?? 0;
 * }
 */
export async function* listPages<T extends KubeObject>(
  client: Pick<Client, 'list'>,
  kind: Kind<T>,
  selection: Selection & RequestOptions & Pick<ListOptions, 'dropManagedFields'> = {},
): AsyncGenerator<List<T>, void> {
  let limit = pageSize;
  const page = async (token: string | undefined): Promise<List<T>> => {
    for (;;) {
      const options = { ...selection, limit, ...(token && { continue: token }) };
      try {
        return await client.list(kind, limit === 1 ? options : { ...options, maxBytes: maxPageBytes });
      } catch (error) {
        if (!(error instanceof ResponseTooLargeError)) throw error;
        limit = Math.max(1, Math.floor(limit / 4));
      }
    }
  };
  for (let next: Promise<List<T>> | undefined = page(undefined); next !== undefined; ) {
    const current: List<T> = await next;
    const token = current.metadata.continue;
    next = token ? page(token) : undefined;
    // The consumer may throw or stop before it needs the next page.
    next?.catch(() => {});
    yield current;
  }
}
