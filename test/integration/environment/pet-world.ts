import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { Pet } from '../../../src/api/index.ts';
import { RemotePets, type ShownPet } from '../../../src/petstore/remote-pets.ts';
import { type Client, HttpClient, isNotFound, type ObjectKey, Transport } from '../../../src/runtime/index.ts';
import { ApiServer, FaultProxy } from '../../../src/runtime/testing/index.ts';
import { programs } from '../../../testkit/api-server-programs.ts';
import { chartRole } from '../../../testkit/chart-role.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { GrpcProxy } from '../../../testkit/grpc-proxy.ts';
import { OperatorProcess } from '../../../testkit/operator-process.ts';
import { customManifest } from '../../../testkit/with-reason.ts';

type Spec = Pet['spec'];

/**
 * An API server of its own, with proxies before it and before a pet store, through which the operator has to go and the test
 * does not, under the role that the chart gives it. Of its own, since operators of other tests would tell each Pet that its controller is switched off.
 */
export class PetWorld implements AsyncDisposable {
  readonly client: Client;
  readonly server: ApiServer;
  /** Before the API server. */
  readonly api: FaultProxy;
  /** Before the pet store. */
  readonly store: GrpcProxy;
  readonly pets: RemotePets;
  readonly #transport: Transport;
  readonly #kubeconfig: string;

  private constructor(
    parts: Pick<PetWorld, 'server' | 'api' | 'store'> & { readonly storePort: number; readonly kubeconfig: string },
  ) {
    this.server = parts.server;
    this.api = parts.api;
    this.store = parts.store;
    this.#kubeconfig = parts.kubeconfig;
    this.#transport = new Transport(parts.server.connection, { userAgent: 'test' });
    this.client = new HttpClient(this.#transport, 'test');
    this.pets = new RemotePets({ address: `127.0.0.1:${parts.storePort}`, timeoutMs: 10_000 });
  }

  /** @param storePort of a pet store on 127.0.0.1. */
  static async start(storePort: number): Promise<PetWorld> {
    const folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'pets-'));
    const server = await ApiServer.start({
      assets: await programs(folder),
      folder,
      crds: [join(import.meta.dirname, '../../../crds')],
      etcdFlags: { 'unsafe-no-fsync': 'true' },
    });
    try {
      const api = await FaultProxy.start({ upstream: server.connection, tls: server.tls });
      const values = { controllers: { pet: { enabled: true } } };
      const role = await chartRole(server.kubeconfig, { namespace, folder, values });
      const kubeconfig = join(folder, 'through-the-proxy');
      await writeFile(kubeconfig, through(api.connection.server, await readFile(role, 'utf8')));
      return new PetWorld({ server, api, store: await GrpcProxy.to(storePort), storePort, kubeconfig });
    } catch (error) {
      await server.close();
      throw error;
    }
  }

  /** Starts the operator, for Pets alone. */
  operator(settings: Readonly<Record<string, string>> = {}): Promise<OperatorProcess> {
    return OperatorProcess.start(this.#kubeconfig, {
      CONTROLLERS: 'pet',
      PETSTORE_ADDRESS: this.store.address,
      PETSTORE_TIMEOUT_SECONDS: '3',
      RESYNC_SECONDS: '1',
      ...settings,
    });
  }

  apply(name: string, spec: Spec): Promise<Pet> {
    return this.client.apply(Pet, customManifest(keyOf(name), spec), { force: true });
  }

  get(name: string): Promise<Pet> {
    return this.client.get(Pet, keyOf(name));
  }

  async remove(name: string): Promise<void> {
    await this.client.delete(Pet, keyOf(name)).catch((error: unknown) => {
      if (!isNotFound(error)) throw error;
    });
  }

  async isGone(name: string): Promise<boolean> {
    try {
      await this.get(name);
      return false;
    } catch (error) {
      if (isNotFound(error)) return true;
      throw error;
    }
  }

  /** All Pets. */
  async resources(): Promise<readonly Pet[]> {
    const found: Pet[] = [];
    for (let next: string | undefined = ''; next !== undefined; ) {
      const page: Awaited<ReturnType<typeof this.client.list<Pet>>> = await this.client.list(Pet, {
        namespace,
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

  /** Waits until there is a pet for each Pet, as it asks for, under its id, and no other pet. */
  async settled(timeoutMs = 180_000): Promise<readonly Pet[]> {
    let difference = 'nothing was looked at yet';
    try {
      return await eventually(
        'pets = resources',
        async () => {
          const [resources, stored] = [await this.resources(), await this.stored()];
          difference = differenceOf(resources, stored) ?? '';
          return difference === '' && resources;
        },
        timeoutMs,
      );
    } catch (cause) {
      throw new Error(`pets are not resources: ${difference}`, { cause });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.pets[Symbol.dispose]();
    await this.#transport.close();
    await this.store[Symbol.asyncDispose]();
    await this.api.close();
    await this.server.close();
  }
}

const namespace = 'default';
const keyOf = (name: string): Required<ObjectKey> => ({ namespace, name });

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

/** The same kubeconfig by way of a proxy with the server's own certificate. */
function through(proxy: URL, kubeconfig: string): string {
  const config = parse(kubeconfig);
  const clusters = config.clusters.map(({ name, cluster }: { readonly name: string; readonly cluster: object }) => ({
    name,
    cluster: { ...cluster, server: proxy.origin },
  }));
  return stringify({ ...config, clusters });
}
