import {
  type CustomKind,
  findCondition,
  isControlledBy,
  type Kind,
  type KubeObject,
  type Manifest,
} from '@echoperator/runtime';
import type { DefinedController, StandardStatus } from '@echoperator/runtime/controller';
import { Event } from '@echoperator/runtime/kinds';
import {
  type AdmittedRequest,
  type Simulation,
  type SimulationOptions,
  simulate,
} from '@echoperator/testing/simulation';
import { caches } from '../../../src/operator.ts';

type Reporting = KubeObject & { readonly status?: StandardStatus };

/** With what the simulated API server refuses a request. */
export type Refusal = ReturnType<NonNullable<SimulationOptions['refuse']>>;

export const forbidden = (message: string) => ({ code: 403, reason: 'Forbidden', message });
export const failing = { code: 500, reason: 'InternalError', message: 'the server is ill' };

/** One of our kinds in a simulated cluster: its operator, and one object of it. */
export class KindWorld<T extends Reporting> {
  /** What the server refuses to the operator. Replace it. */
  refuse: (request: AdmittedRequest) => Refusal = () => undefined;
  /**
   * What the operator has asked the server to change: `create Job hello`, `patch Echo hello/status`. Without Events.
   */
  readonly writes: string[] = [];
  readonly key: { readonly namespace: string; readonly name: string };
  readonly #kind: CustomKind<T> & Kind<T>;
  #simulation: Simulation | undefined;

  private constructor(kind: Kind<T>, name: string) {
    this.#kind = kind as CustomKind<T> & Kind<T>;
    this.key = { namespace: 'default', name };
  }

  /**
   * Runs a test with the operator of a controller. The test waits with `settle` or `advance`.
   *
   * @param options.name of the object. Default: `hello`.
   */
  static async run<T extends Reporting>(
    controller: DefinedController,
    kind: Kind<T>,
    test: (world: KindWorld<T>) => Promise<unknown>,
    { name = 'hello', ...options }: Partial<SimulationOptions> & { readonly name?: string } = {},
  ): Promise<void> {
    const world = new KindWorld(kind, name);
    await simulate(
      {
        controllers: [controller],
        controllerOptions: { caches, workers: 2, resyncEveryMs: 86_400_000 },
        refuse: (request) => world.#admit(request),
        ...options,
      },
      async (simulation) => {
        world.#simulation = simulation;
        await test(world);
      },
    );
  }

  get simulation(): Simulation {
    if (this.#simulation === undefined) throw new Error('the simulation has not started');
    return this.#simulation;
  }

  get client() {
    return this.simulation.client;
  }

  /** Applies the spec of the object, as a user, and lets everything happen. */
  async apply(spec: object): Promise<void> {
    const manifest = { metadata: this.key, spec } as unknown as Manifest<T>;
    await this.client.apply(this.#kind, manifest, { force: true });
    await this.settle();
  }

  settle = (): Promise<void> => this.simulation.settle();

  advance = (seconds: number): Promise<void> => this.simulation.advance(seconds * 1000);

  /** The object. */
  get object(): T {
    const found = this.simulation.objects(this.#kind).find(({ metadata }) => metadata.name === this.key.name);
    if (found === undefined) throw new Error(`there is no ${this.#kind.kind}`);
    return found;
  }

  get status(): NonNullable<T['status']> {
    return (this.object.status ?? {}) as NonNullable<T['status']>;
  }

  /** The reason of a condition. */
  reason(type = 'Ready'): string | undefined {
    return findCondition(this.object.status?.conditions, type)?.reason;
  }

  /** The message of a condition. */
  message(type = 'Ready'): string | undefined {
    return findCondition(this.object.status?.conditions, type)?.message;
  }

  /** The children of a kind that the object controls. */
  owned<C extends KubeObject>(kind: Kind<C>): readonly C[] {
    const { object } = this;
    return this.simulation.objects(kind).filter((child) => isControlledBy(child, object));
  }

  /** The first of the objects of a kind. @throws Error if there is none */
  first<C extends KubeObject>(kind: Kind<C>): C {
    const [first] = this.simulation.objects(kind);
    if (first === undefined) throw new Error(`there is no ${kind.kind}`);
    return first;
  }

  /** The Events about the object: `Warning Refused`. */
  get events(): readonly string[] {
    return this.#events.map(({ type, reason }) => `${type} ${reason}`);
  }

  /** What the Events with this reason say. */
  notes(reason: string): readonly string[] {
    return this.#events.filter((event) => event.reason === reason).map(({ note = '' }) => note);
  }

  /** Keeps a deleted object until its finalizers are removed. */
  hold<C extends KubeObject>(kind: Kind<C>, { metadata }: Pick<C, 'metadata'>, finalizers = ['test.example/stays']) {
    const body = { metadata: { finalizers: finalizers.length === 0 ? null : finalizers } };
    return this.client.patch(kind, metadata, { type: 'merge', body });
  }

  /** Creates an object, as a user. */
  create<C extends KubeObject>(kind: Kind<C>, manifest: object): Promise<C> {
    return this.client.create(kind, manifest as Manifest<C>);
  }

  /** Merges into the status of an object, as its controller or the kubelet does. Its version does not matter. */
  setStatus<C extends KubeObject>(kind: Kind<C>, { metadata }: Pick<C, 'metadata'>, status: object): Promise<C> {
    const { name, namespace = '' } = metadata;
    const body = { status };
    return this.client.patch(kind, { name, namespace }, { type: 'merge', body }, { subresource: 'status' });
  }

  get #events(): readonly Event[] {
    return this.simulation.objects(Event).filter(({ regarding }) => regarding?.kind === this.#kind.kind);
  }

  #admit(request: AdmittedRequest): Refusal {
    const { verb, kind, name, subresource, object, from } = request;
    if (from === 'user' || kind === Event) return undefined;
    const isRead = verb === 'get' || verb === 'list' || verb === 'watch';
    const path = `${name ?? object?.metadata.name}${subresource === undefined ? '' : `/${subresource}`}`;
    if (!isRead) this.writes.push(`${verb} ${kind.kind} ${path}`);
    return this.refuse(request);
  }
}
