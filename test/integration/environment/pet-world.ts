import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Client, ObjectKey } from '@echoperator/runtime';
import { isNotFound } from '@echoperator/runtime/client';
import type { FaultProxy } from '@echoperator/testing';
import { RemotePets, type ShownPet } from '../../../packages/petstore/src/server/remote-pets.ts';
import { Pet } from '../../../src/kinds/pet/kind.ts';
import { chartRole } from '../../../testkit/chart-role.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { GrpcProxy } from '../../../testkit/grpc-proxy.ts';
import { OperatorProcess } from '../../../testkit/operator-process.ts';
import { proxiedKubeconfig } from '../../../testkit/proxied-kubeconfig.ts';
import { TestCluster } from '../../../testkit/test-cluster.ts';
import { customManifest } from '../../../testkit/with-reason.ts';

type Spec = Pet['spec'];

type StoreTls = { readonly ca: string };

/**
 * A namespace for Pets, and proxies for the API server and a pet store. The operator uses the proxies and has the
 * chart's role in the namespace. The test bypasses the proxies.
 */
export class PetWorld implements AsyncDisposable {
  readonly namespace: string;
  /** The operator's proxy for the API server. */
  readonly api: FaultProxy;
  /** The operator's proxy for the pet store. */
  readonly store: GrpcProxy;
  readonly pets: RemotePets;
  readonly #cluster: TestCluster;
  readonly #kubeconfig: string;
  readonly #folder: string;

  private constructor(
    parts: Pick<PetWorld, 'namespace' | 'api' | 'store'> & {
      readonly cluster: TestCluster;
      readonly storePort: number;
      readonly tls: StoreTls | undefined;
      readonly kubeconfig: string;
      readonly folder: string;
    },
  ) {
    this.namespace = parts.namespace;
    this.api = parts.api;
    this.store = parts.store;
    this.#cluster = parts.cluster;
    this.#kubeconfig = parts.kubeconfig;
    this.#folder = parts.folder;
    this.pets = new RemotePets({ address: `127.0.0.1:${parts.storePort}`, tls: parts.tls, timeoutMs: 10_000 });
  }

  /**
   * @param storePort the port of a pet store on 127.0.0.1
   * @param tls if the store uses TLS. The proxy for the store does not.
   */
  static async start(storePort: number, tls?: StoreTls): Promise<PetWorld> {
    const cluster = await TestCluster.connect();
    const folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'pets-'));
    try {
      const namespace = await cluster.namespace();
      const values = { controllers: { pet: { enabled: true } }, watchNamespaces: [namespace] };
      const role = await chartRole(cluster.kubeconfig, { namespace, folder, values });
      const { proxy: api, kubeconfig } = await proxiedKubeconfig(role, folder);
      return new PetWorld({
        cluster,
        namespace,
        api,
        store: await GrpcProxy.start(storePort),
        storePort,
        tls,
        kubeconfig,
        folder,
      });
    } catch (error) {
      await cluster.close();
      throw error;
    }
  }

  get client(): Client {
    return this.#cluster.client;
  }

  /**
   * Starts the operator with only the controller of Pets. It resyncs rarely, as by default, so a resync cannot hide a
   * lost event.
   */
  operator(settings: Readonly<Record<string, string>> = {}): Promise<OperatorProcess> {
    return OperatorProcess.start(this.#kubeconfig, {
      CONTROLLERS: 'pet',
      WATCH_NAMESPACES: this.namespace,
      PETSTORE_ADDRESS: this.store.address,
      PETSTORE_TIMEOUT_SECONDS: '3',
      ...settings,
    });
  }

  key(name: string): Required<ObjectKey> {
    return { namespace: this.namespace, name };
  }

  apply(name: string, spec: Spec): Promise<Pet> {
    return this.client.apply(Pet, customManifest(this.key(name), spec), { force: true });
  }

  get(name: string): Promise<Pet> {
    return this.client.get(Pet, this.key(name));
  }

  async remove(name: string): Promise<void> {
    await this.client.delete(Pet, this.key(name)).catch((error: unknown) => {
      if (!isNotFound(error)) throw error;
    });
  }

  /** Returns undefined if there is no Pet with this name. */
  async find(name: string): Promise<Pet | undefined> {
    return this.get(name).catch((error: unknown) => {
      if (!isNotFound(error)) throw error;
      return undefined;
    });
  }

  async isGone(name: string): Promise<boolean> {
    return (await this.find(name)) === undefined;
  }

  /** Returns all Pets. */
  async resources(): Promise<readonly Pet[]> {
    const found: Pet[] = [];
    for (let next: string | undefined = ''; next !== undefined; ) {
      const page: Awaited<ReturnType<typeof this.client.list<Pet>>> = await this.client.list(Pet, {
        namespace: this.namespace,
        limit: 500,
        ...(next !== '' && { continue: next }),
      });
      found.push(...page.items);
      next = page.metadata.continue || undefined;
    }
    return found;
  }

  /** Returns all pets in the store. */
  async stored(): Promise<readonly ShownPet[]> {
    const found: ShownPet[] = [];
    for await (const pet of this.pets.list({ names: [], types: [] })) found.push(pet);
    return found;
  }

  /**
   * Waits until the store has exactly the pets of the Pets' specs, with the ids of their statuses.
   *
   * @param broken returns an error that ends the wait
   */
  async settled(timeoutMs = 180_000, broken: () => Error | undefined = () => undefined): Promise<readonly Pet[]> {
    let difference = 'nothing was looked at yet';
    let pending: Pet | undefined;
    const look = async (): Promise<readonly Pet[] | Error | false> => {
      // Check a single Pet first: a list of hundreds in each poll would take CPU from the operator.
      if (pending !== undefined && (await this.#isPending(pending.metadata.name))) return broken() ?? false;
      const [resources, stored] = [await this.resources(), await this.stored()];
      pending = resources.findLast(isPending);
      difference = differenceOf(resources, stored) ?? '';
      return broken() ?? (difference === '' && resources);
    };
    const found = await eventually('pets = resources', look, timeoutMs).catch((cause: unknown) => {
      throw new Error(`pets are not resources: ${difference}`, { cause });
    });
    if (found instanceof Error) throw found;
    return found;
  }

  /** Returns false also if there is no such Pet. */
  async #isPending(name: string): Promise<boolean> {
    const pet = await this.find(name);
    return pet !== undefined && isPending(pet);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.pets[Symbol.dispose]();
    // No operator runs that would remove the finalizers.
    const body = { metadata: { finalizers: null } };
    for (const { metadata } of await this.resources()) {
      await this.client.patch(Pet, this.key(metadata.name), { type: 'merge', body });
    }
    await this.#cluster.close();
    await this.store[Symbol.asyncDispose]();
    await this.api.close();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

/** Whether the operator still has to add or delete its pet. */
const isPending = ({ metadata, status }: Pet): boolean =>
  status?.id === undefined || status.intent !== undefined || metadata.deletionTimestamp !== undefined;

function differenceOf(resources: readonly Pet[], stored: readonly ShownPet[]): string | undefined {
  const byId = new Map(stored.map((pet) => [pet.id, pet]));
  for (const { metadata, spec, status } of resources) {
    const pet = byId.get(status?.id ?? '');
    if (status?.intent !== undefined) return `${metadata.name} is still being added`;
    if (metadata.deletionTimestamp !== undefined) return `${metadata.name} is still being deleted`;
    const wanted = [spec.name.trim(), spec.type, new Date(spec.birthday).toISOString().slice(0, 10)].join();
    const found = pet && [pet.name, pet.type, pet.birthday].join();
    if (found !== wanted) return `${metadata.name} (${status?.id}) is ${found} in the store, not ${wanted}`;
  }
  const ids = new Set(resources.map(({ status }) => status?.id));
  if (ids.size !== resources.length) return `${resources.length} Pets have ${ids.size} ids`;
  if (stored.length !== resources.length) return `there are ${stored.length} pets for ${resources.length} Pets`;
  return undefined;
}
