import { type Client, done, type Manager, type ObjectKey, owns, type Reconcile } from '@echoperator/runtime';
import type { Informer, ReflectorOptions } from '@echoperator/runtime/cache';
import { isNotFound } from '@echoperator/runtime/client';
import { ConfigMap } from '@echoperator/runtime/kinds';
import { Echo } from '../../../../src/kinds/echo/kind.ts';

/** The last reconciled state of a name: the Echo's message, or that there is no such Echo. */
export type Reconciled = { readonly message: string } | 'gone';

/**
 * A controller whose work a test can verify: it writes each Echo's message into a ConfigMap with the Echo's name, and
 * the generation into the Echo's status. Records the reconciled states.
 */
export class Mirror {
  readonly echos: Informer<Echo>;
  readonly copies: Informer<ConfigMap>;
  readonly reconciled = new Map<string, Reconciled>();
  reconciles = 0;

  /** @param watching the informers' options. Default: the runtime's */
  constructor(manager: Manager, namespace: string, watching: ReflectorOptions) {
    const options = { ...watching, namespaces: [namespace], freeze: true };
    this.echos = manager.informer<Echo>(Echo, options);
    this.copies = manager.informer<ConfigMap>(ConfigMap, options);
    manager.controller(Echo, {
      watches: [owns(Echo, ConfigMap)],
      reconcile: (key, { client }) => this.#reconcile(key, client),
    });
  }

  readonly #reconcile = async (key: ObjectKey, client: Client): ReturnType<Reconcile> => {
    this.reconciles += 1;
    const echo = this.echos.store.get(key);
    if (echo === undefined) await this.#remove(key, client);
    else await this.#bringUpToDate(echo, key, client);
    this.reconciled.set(key.name, echo === undefined ? 'gone' : { message: echo.spec.message });
    return done;
  };

  async #remove(key: ObjectKey, client: Client): Promise<void> {
    const copy = this.copies.store.get(key);
    if (copy === undefined) return;
    await client.delete(ConfigMap, key, { uid: copy.metadata.uid }).catch((error: unknown) => {
      if (!isNotFound(error)) throw error;
    });
  }

  async #bringUpToDate(echo: Echo, key: ObjectKey, client: Client): Promise<void> {
    const { message } = echo.spec;
    const { uid, generation, resourceVersion } = echo.metadata;
    let copy = this.copies.store.get(key);
    if (copy !== undefined && copy.metadata.ownerReferences?.[0]?.uid !== uid) {
      // The ConfigMap belongs to an earlier Echo with this name.
      await this.#remove(key, client);
      copy = undefined;
    }
    const ownerReferences = [
      { apiVersion: 'mmontes.io/v1alpha1', kind: 'Echo', name: key.name, uid, controller: true },
    ];
    const manifest = { metadata: { ...key, ownerReferences }, data: { message } };
    if (copy === undefined) await client.create(ConfigMap, manifest);
    else if (copy.data?.message !== message) await client.apply(ConfigMap, manifest, { force: true });
    if (echo.status?.completedGeneration !== generation) {
      await client.mergeStatus(Echo, { ...key, resourceVersion }, { completedGeneration: generation });
    }
  }
}
