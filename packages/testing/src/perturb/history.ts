import type { Kind, KubeObject } from '@echoperator/runtime';
import type { Client } from '@echoperator/runtime/client';
import type { ListedObject } from '../facts.ts';

/** Longer than any run. */
const timeoutSeconds = 3600;

interface Change {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly kind: string;
  readonly object: KubeObject;
}

/** Every version of the objects of some kinds in a namespace, whatever the operator receives of them. */
export class ObjectHistory {
  readonly #changes: Change[] = [];
  readonly #ending = new AbortController();
  #watching: readonly Promise<void>[] = [];
  #failure: unknown;

  /** Records from now on. The namespace must be empty. */
  static async start(client: Client, kinds: readonly Kind[], namespace: string): Promise<ObjectHistory> {
    const history = new ObjectHistory();
    const watched = kinds.map(async (kind) => {
      const { metadata } = await client.list(kind, { namespace, limit: 1 });
      return history.#watch(client, kind, { namespace, resourceVersion: metadata.resourceVersion });
    });
    history.#watching = (await Promise.all(watched)).map(({ ended }) => ended);
    return history;
  }

  /**
   * Replays the changes in the order in which they happened, which the watches of several kinds do not keep.
   *
   * @param check returns what is wrong with the objects
   * @throws Error with the first change after which something was wrong; the error of a watch
   */
  check(check: (objects: readonly ListedObject[]) => string | undefined): void {
    if (this.#failure !== undefined) throw this.#failure;
    const objects = new Map<string, ListedObject>();
    const versionOf = ({ object }: Change): number => Number(object.metadata.resourceVersion);
    for (const change of this.#changes.toSorted((one, other) => versionOf(one) - versionOf(other))) {
      const { type, kind, object } = change;
      if (type === 'DELETED') objects.delete(object.metadata.uid);
      else objects.set(object.metadata.uid, { kind, object });
      const wrong = check([...objects.values()]);
      if (wrong !== undefined) {
        throw new Error(`${wrong}, since ${kind} ${object.metadata.name} was ${type} at ${versionOf(change)}`);
      }
    }
  }

  async stop(): Promise<void> {
    this.#ending.abort();
    await Promise.all(this.#watching);
  }

  #watch(
    client: Client,
    kind: Kind,
    from: { readonly namespace: string; readonly resourceVersion: string },
  ): { readonly ended: Promise<void> } {
    const { signal } = this.#ending;
    const record = async (): Promise<void> => {
      for await (const { type, object } of client.watch(kind, { ...from, timeoutSeconds, signal })) {
        if (type !== 'BOOKMARK') this.#changes.push({ type, kind: kind.kind, object });
      }
    };
    const ended = record().catch((error: unknown) => {
      if (!signal.aborted) this.#failure = error;
    });
    return { ended };
  }
}
