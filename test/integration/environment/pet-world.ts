import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Pet } from '../../../src/api/index.ts';
import { RemotePets, type ShownPet } from '../../../src/petstore/remote-pets.ts';
import { isNotFound } from '../../../src/runtime/client/index.ts';
import type { Client, ObjectKey } from '../../../src/runtime/index.ts';
import type { FaultProxy } from '../../../src/runtime/testing/index.ts';
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
 * A namespace of its own for Pets, and proxies before the API server and before a pet store. The operator goes through them,
 * under the role that the chart gives it in that namespace; the test does not.
 */
export class PetWorld implements AsyncDisposable {
  readonly namespace: string;
  /** Before the API server. */
  readonly api: FaultProxy;
  /** Before the pet store. */
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
   * @param storePort of a pet store on 127.0.0.1.
   * @param tls where the store speaks it; the proxy before the store does not.
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
        store: await GrpcProxy.to(storePort),
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

  /** Starts the operator, for Pets alone. It resyncs as seldom as by default: no lost event heals while a test looks. */
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

  /** Undefined if there is none of this name. */
  async find(name: string): Promise<Pet | undefined> {
    return this.get(name).catch((error: unknown) => {
      if (!isNotFound(error)) throw error;
      return undefined;
    });
  }

  async isGone(name: string): Promise<boolean> {
    return (await this.find(name)) === undefined;
  }

  /** All Pets. */
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

  /** All pets in the store. */
  async stored(): Promise<readonly ShownPet[]> {
    const found: ShownPet[] = [];
    for await (const pet of this.pets.list({ names: [], types: [] })) found.push(pet);
    return found;
  }

  /**
   * Waits until there is a pet for each Pet, as it asks for, under its id, and no other pet.
   *
   * @param broken why there is nothing to wait for any more.
   */
  async settled(timeoutMs = 180_000, broken: () => Error | undefined = () => undefined): Promise<readonly Pet[]> {
    let difference = 'nothing was looked at yet';
    let pending: Pet | undefined;
    const look = async (): Promise<readonly Pet[] | Error | false> => {
      // One of them first: a list of hundreds at each look would take the CPU from the operator.
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

  /** False also if there is no such Pet. */
  async #isPending(name: string): Promise<boolean> {
    const pet = await this.find(name);
    return pet !== undefined && isPending(pet);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.pets[Symbol.dispose]();
    // No operator is left that would take the finalizers off.
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

/** Whether the operator has yet to add or to delete its pet. */
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
