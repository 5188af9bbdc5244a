import type { Client, Kind, KubeObject, ObjectKey } from '@echoperator/runtime';
import { isNotFound, type List } from '@echoperator/runtime/client';
import { ConfigMap } from '@echoperator/runtime/kinds';
import { Echo } from '../../../../src/kinds/echo/kind.ts';
import { echoManifest } from '../../../../testkit/echos.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import type { Reconciled } from './mirror.ts';
import type { Versions } from './subject.ts';
import type { SubjectProcess } from './subject-process.ts';

/** The largest allowed ratio of the heap after a fault to the heap before. */
const heapGrowth = 1.1;

/**
 * The Echos of a namespace, which a test writes without faults, and checks whether a subject has kept up. Their number
 * is the same after each round of changes, so the subject's heap must not grow.
 */
export class World {
  readonly namespace: string;
  readonly #client: Client;
  readonly #names: readonly string[];
  /** The changes since the last {@link converge}. */
  readonly #changed = new Map<string, Reconciled>();
  /** The names that the last {@link change} deleted. */
  #removed: readonly string[] = [];
  #round = 0;

  /** @param client a client without faults */
  constructor(client: Client, namespace: string, size = 40) {
    this.#client = client;
    this.namespace = namespace;
    this.#names = Array.from({ length: size }, (_, index) => `echo-${index}`);
  }

  async populate(): Promise<void> {
    await Promise.all(this.#names.map((name) => this.write(name)));
  }

  /**
   * Changes 30 % of the Echos, deletes 10 % and creates them again with their names, and deletes another 10 %, which
   * the next change creates again.
   */
  async change(): Promise<void> {
    const names = this.#names.map((_, index) => this.#names[(this.#round + index) % this.#names.length] as string);
    const tenth = Math.ceil(names.length / 10);
    const [removed, renewed, changed] = [names.splice(0, tenth), names.splice(0, tenth), names.splice(0, tenth * 3)];
    const back = this.#removed.filter((name) => names.includes(name));
    await Promise.all([...removed, ...renewed].map((name) => this.remove(name)));
    await Promise.all([...renewed, ...changed, ...back].map((name) => this.write(name)));
    this.#removed = removed;
  }

  /** Gives an Echo a new message, and creates it if it does not exist. */
  async write(name: string): Promise<void> {
    this.#round += 1;
    const message = `message ${String(this.#round).padStart(8, '0')} of ${name}`;
    await this.#client.apply(Echo, echoManifest(this.#key(name), { message }), { force: true });
    this.#changed.set(name, { message });
  }

  async remove(name: string): Promise<void> {
    await this.#client.delete(Echo, this.#key(name)).catch((error: unknown) => {
      if (!isNotFound(error)) throw error;
    });
    this.#changed.set(name, 'gone');
  }

  /** Call this after the cluster lost changes: they need not be reconciled. */
  forget(): void {
    this.#changed.clear();
  }

  /** Waits until the stores equal a fresh list and the last state of every changed object has been reconciled. */
  async converge(subject: SubjectProcess, timeoutMs = 180_000): Promise<void> {
    let difference: string | undefined;
    const look = async () => {
      difference = await this.#difference(subject);
      return difference === undefined;
    };
    try {
      await eventually('the subject has kept up', look, timeoutMs);
    } catch (cause) {
      const warnings = (await subject.ask('warnings')).slice(-10).join('\n  ');
      throw new Error(`the subject has not kept up: ${difference}; its last warnings:\n  ${warnings}`, { cause });
    }
    this.#changed.clear();
  }

  /** Waits until the heap is at most 10 % larger than before. Closed connections may take a moment. */
  async heapIsAsBefore(subject: SubjectProcess, before: number): Promise<void> {
    let heap = 0;
    await eventually('the heap is as before', async () => {
      heap = await subject.ask('heap');
      return heap <= before * heapGrowth;
    }).catch((cause: unknown) => {
      const kib = (bytes: number) => Math.round(bytes / 1024);
      throw new Error(`the heap has grown from ${kib(before)} KiB to ${kib(heap)} KiB`, { cause });
    });
  }

  async #difference(subject: SubjectProcess): Promise<string | undefined> {
    const echos = await everything(this.#client, Echo, this.namespace);
    const behind = echos.find(({ metadata, status }) => status?.completedGeneration !== metadata.generation);
    if (behind !== undefined) return `the status of ${behind.metadata.name} is of an earlier generation`;
    const copies = await everything(this.#client, ConfigMap, this.namespace);
    const stores = await subject.ask('stores');
    const reconciled = await subject.ask('reconciled');
    return (
      firstDifference('Echo', versionsOf(echos), stores.echos) ??
      firstDifference('ConfigMap', versionsOf(copies), stores.copies) ??
      this.#unlikeItsCopy(echos, copies) ??
      this.#notReconciled(reconciled)
    );
  }

  #unlikeItsCopy(echos: readonly Echo[], copies: readonly ConfigMap[]): string | undefined {
    const wanted = Object.fromEntries(echos.map(({ metadata, spec }) => [metadata.name, spec.message]));
    const found = copies.filter(({ metadata }) => metadata.ownerReferences !== undefined);
    const messages = Object.fromEntries(found.map(({ metadata, data }) => [metadata.name, data?.message ?? '']));
    return firstDifference('copy of', wanted, messages);
  }

  #notReconciled(reconciled: { readonly [name: string]: Reconciled }): string | undefined {
    for (const [name, expected] of this.#changed) {
      // The subject never saw objects that existed only between two lists or before its start.
      const actual = reconciled[name] ?? 'gone';
      if (JSON.stringify(actual) !== JSON.stringify(expected)) {
        return `${name} was reconciled as ${JSON.stringify(actual)}, not as ${JSON.stringify(expected)}`;
      }
    }
    return undefined;
  }

  #key(name: string): ObjectKey {
    return { namespace: this.namespace, name };
  }
}

/** Returns a complete fresh list. */
async function everything<T extends KubeObject>(client: Client, kind: Kind<T>, namespace: string): Promise<T[]> {
  const items: T[] = [];
  for (let token: string | undefined, more = true; more; more = token !== undefined) {
    const page: List<T> = await client.list(kind, { namespace, limit: 500, ...(token && { continue: token }) });
    items.push(...page.items);
    token = page.metadata.continue || undefined;
  }
  return items;
}

const versionsOf = (objects: readonly KubeObject[]): Versions =>
  Object.fromEntries(objects.map(({ metadata }) => [metadata.name, metadata.resourceVersion]));

function firstDifference(what: string, expected: Versions, actual: Versions): string | undefined {
  for (const name of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
    if (expected[name] !== actual[name]) {
      return `${what} ${name} is ${expected[name]} in the cluster and ${actual[name]} in the store`;
    }
  }
  return undefined;
}
