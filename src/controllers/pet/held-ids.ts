import { Pet } from '../../api/index.ts';
import type { Client } from '../../runtime/index.ts';

const pageSize = 500;

/**
 * The ids that other Pets hold, read from the API server: a cache may not have seen the last status that another process wrote,
 * and a pet that was taken twice would be deleted under its second owner's feet.
 *
 * @param namespaces where there are Pets. Default: everywhere.
 */
export async function idsHeldByOthers(
  client: Client,
  uid: string,
  namespaces: readonly string[] | undefined,
): Promise<ReadonlySet<string>> {
  const held = new Set<string>();
  for (const scope of namespaces?.map((namespace) => ({ namespace })) ?? [{}]) {
    for (let next: string | undefined = ''; next !== undefined; ) {
      const page: Awaited<ReturnType<typeof client.list<Pet>>> = await client.list(Pet, {
        ...scope,
        limit: pageSize,
        ...(next !== '' && { continue: next }),
      });
      for (const { metadata, status } of page.items) {
        if (status?.id !== undefined && metadata.uid !== uid) held.add(status.id);
      }
      next = page.metadata.continue || undefined;
    }
  }
  return held;
}
