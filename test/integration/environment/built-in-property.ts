import { randomUUID } from 'node:crypto';
import type { Client, Kind, KubeObject, Manifest, ObjectKey } from '@echoperator/runtime';
import { ApiError } from '@echoperator/runtime/client';
import {
  CronJob,
  Deployment,
  Job,
  Lease,
  PersistentVolumeClaim,
  Pod,
  Secret,
  Service,
  StatefulSet,
} from '@echoperator/runtime/kinds';
import { isObject } from '../../../packages/runtime/src/apply/json.ts';
import { apiVersionOf } from '../../../packages/runtime/src/kind/kind.ts';
import { sameValue } from '../../../packages/testing/src/simulation/built-in-refusals.ts';
import { builtInStrategy } from '../../../packages/testing/src/simulation/built-in-resources.ts';
import {
  NotSimulatedError,
  RefusedError,
  type StoredObject,
} from '../../../packages/testing/src/simulation/strategy.ts';
import { deploymentOf } from '../../../src/kinds/book-store/app.ts';
import { statefulSetOf } from '../../../src/kinds/book-store/database.ts';
import { specWithDefaultsOf } from '../../../src/kinds/book-store/desired.ts';
import type { BookStore } from '../../../src/kinds/book-store/kind.ts';
import { echoJob } from '../../../src/kinds/echo/echo-job.ts';
import type { Echo } from '../../../src/kinds/echo/kind.ts';
import type { PodSet } from '../../../src/kinds/pod-set/kind.ts';
import { newPod } from '../../../src/kinds/pod-set/pod.ts';
import { cronJobOf } from '../../../src/kinds/scheduled-echo/cron-job.ts';
import type { ScheduledEcho } from '../../../src/kinds/scheduled-echo/kind.ts';
import fc from '../../../testkit/seeded-fast-check.ts';
import { builtInSamples } from '../../../tools/generate/built-in-samples.ts';
import { kindPlans } from '../../plans/index.ts';

/** A kind, and the content of an object without its name. */
interface BuiltInSubject {
  readonly kind: Kind<KubeObject>;
  readonly content: object;
}

const podDefaults = { metadata: {}, spec: {}, container: {} };
const printing = {
  image: 'busybox:1',
  podDefaults,
  resources: { requests: { cpu: '10m' }, limits: { memory: '32Mi' } },
};
const owner = { name: 'shop', namespace: 'default', uid: randomUUID(), generation: 2 };
const bookStore = { metadata: owner, spec: kindPlans.bookStore.example } as unknown as BookStore;
const bookStoreSpec = specWithDefaultsOf(bookStore);
const podSet = (spec: object) => ({ metadata: owner, spec }) as unknown as PodSet;
const labels = { app: 'shop' };
const at = '2026-01-02T03:04:05.678900Z';

/** The children of our kinds, then other objects that operators create. */
const builtInSubjects: readonly BuiltInSubject[] = [
  { kind: Deployment, content: deploymentOf(bookStore, bookStoreSpec, podDefaults) },
  { kind: StatefulSet, content: statefulSetOf(bookStore, bookStoreSpec, undefined, podDefaults) },
  { kind: Job, content: echoJob({ metadata: owner, spec: kindPlans.echo.example } as unknown as Echo, printing) },
  {
    kind: CronJob,
    content: cronJobOf(
      { metadata: owner, spec: kindPlans.scheduledEcho.example } as unknown as ScheduledEcho,
      'shop',
      printing,
    ),
  },
  { kind: Pod, content: newPod(podSet(kindPlans.podSet.example), 'hash', 'shop', { image: 'busybox', podDefaults }) },
  { kind: Pod, content: newPod(podSet({ replicas: 1 }), 'hash', 'shop', { image: 'busybox', podDefaults }) },
  ...['ClusterIP', 'NodePort', 'LoadBalancer'].map((type) => ({
    kind: Service,
    content: {
      spec: { type, selector: labels, ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 3000 }] },
    },
  })),
  { kind: Service, content: { spec: { clusterIP: 'None', selector: labels, ports: [{ name: 'db', port: 27017 }] } } },
  { kind: Service, content: { spec: { clusterIP: 'None', ports: [{ port: 53, protocol: 'UDP' }] } } },
  { kind: Service, content: { spec: { type: 'ExternalName', externalName: 'a.example' } } },
  { kind: Lease, content: { spec: { holderIdentity: 'a', leaseDurationSeconds: 15, acquireTime: at, renewTime: at } } },
  {
    kind: Secret,
    content: { stringData: { a: '1', b: 'ü' }, data: { b: 'AA==', c: 'AAAA' }, type: 'example.com/token' },
  },
  ...builtInSamples,
  {
    kind: PersistentVolumeClaim,
    content: {
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '2Gi' } }, storageClassName: 'a' },
    },
  },
];

const conditions = [{ type: 'Ready', status: 'True', lastProbeTime: null, lastTransitionTime: '2026-01-01T00:00:00Z' }];

/** What controllers write. Each has what the API server requires and adds. */
const statuses: ReadonlyMap<Kind<KubeObject>, readonly Json[]> = new Map<Kind<KubeObject>, readonly Json[]>([
  [Deployment, [{}, { replicas: 1, readyReplicas: 1, observedGeneration: 1, unknown: 1 }]],
  [StatefulSet, [{ replicas: 1, currentRevision: 'a' }]],
  [Job, [{ startTime: '2026-01-01T00:00:00Z', active: 1, ready: 0 }, {}]],
  [CronJob, [{ lastScheduleTime: '2026-01-01T00:00:00Z' }]],
  [Pod, [{ phase: 'Running', conditions, podIP: '10.1.0.1', podIPs: [{ ip: '10.1.0.1' }] }, { phase: 'Succeeded' }]],
  [
    PersistentVolumeClaim,
    [{ phase: 'Bound', accessModes: ['ReadWriteOnce'], capacity: { storage: '1Gi' } }, { phase: 'Pending' }],
  ],
  [Service, [{ loadBalancer: { ingress: [{ hostname: 'a.example' }] } }]],
]);

type Json = Readonly<Record<string, unknown>>;

/** The members that subjects have below members of a name, with their values. */
const members = new Map<string, Map<string, unknown[]>>();

function collect(value: unknown, parent: string): void {
  if (Array.isArray(value)) for (const item of value) collect(item, parent);
  if (!isObject(value)) return;
  for (const [name, inner] of Object.entries(value)) {
    const known = members.get(parent) ?? new Map<string, unknown[]>();
    members.set(parent, known.set(name, [...(known.get(name) ?? []), inner]));
    collect(inner, name);
  }
}
for (const { kind, content } of builtInSubjects) collect({ ...content, metadata: {} }, kind.kind);

/** What no subject has: zeros, other spellings of quantities, values that are refused. */
const odd: readonly unknown[] = [
  0,
  '',
  false,
  true,
  null,
  {},
  1,
  2,
  -1,
  70_000,
  'other',
  'UPPER',
  '1000m',
  '0.5',
  '1.5Gi',
  '1e3',
  '100n',
  '2026-01-02T03:04:05Z',
];

/** One change of a manifest. The numbers choose among what the manifest has. */
interface Edit {
  readonly type: 'remove' | 'set' | 'add' | 'repeat' | 'odd' | 'unknown';
  readonly node: number;
  readonly member: number;
  readonly value: number;
}

const edit: fc.Arbitrary<Edit> = fc.record({
  type: fc.constantFrom('remove', 'set', 'set', 'add', 'add', 'repeat', 'odd', 'unknown'),
  node: fc.nat(),
  member: fc.nat(),
  value: fc.nat(),
});

/** A creation, and a change of what was created. */
export interface BuiltInCase {
  readonly subject: number;
  readonly name: 'label' | 'subdomain' | 'upper' | 'of 60' | 'of 70' | 'of 260';
  readonly creation: readonly Edit[];
  /** The change of the object, of its status, or of the manifest, as an update without the server's defaults. */
  readonly base: 'object' | 'status' | 'manifest';
  readonly change: readonly Edit[];
}

export const builtInCases: fc.Arbitrary<BuiltInCase> = fc.record({
  subject: fc.nat(builtInSubjects.length - 1),
  name: fc.oneof(
    { weight: 15, arbitrary: fc.constant('label' as const) },
    fc.constantFrom('subdomain' as const, 'upper' as const, 'of 60' as const, 'of 70' as const, 'of 260' as const),
  ),
  creation: fc.array(edit, { maxLength: 3 }),
  base: fc.constantFrom('object', 'manifest', 'status'),
  change: fc.array(edit, { maxLength: 2 }),
});

/** The objects within a value, each with the name of the member that has it, and a function that replaces it. */
function nodesOf(
  value: unknown,
  parent: string,
): { readonly node: Record<string, unknown>; readonly parent: string }[] {
  if (Array.isArray(value)) return value.flatMap((item) => nodesOf(item, parent));
  if (!isObject(value)) return [];
  const inner = Object.entries(value).flatMap(([name, member]) => nodesOf(member, name));
  return [{ node: value as Record<string, unknown>, parent }, ...inner];
}

function edited(content: object, kind: string, edits: readonly Edit[]): Json {
  const { metadata, status, ...changed } = structuredClone(content) as Record<string, unknown>;
  for (const { type, ...at } of edits) {
    const nodes = nodesOf(changed, kind);
    const { node, parent } = nodes[at.node % nodes.length]!;
    const known = members.get(parent) ?? new Map<string, unknown[]>();
    const own = Object.keys(node);
    const absent = [...known.keys()].filter((name) => !own.includes(name));
    const names = type === 'add' ? absent : own;
    const name = names[at.member % names.length];
    if (name === undefined || (node === changed && ['apiVersion', 'kind'].includes(name))) continue;
    const values = type === 'odd' ? odd : (known.get(name) ?? []);
    if (type === 'unknown' && node !== changed) node[`unknown${at.value % 2}`] = odd[at.value % odd.length];
    else if (type === 'remove') delete node[name];
    else if (type === 'repeat' && Array.isArray(node[name])) {
      node[name] = at.value % 2 === 0 ? [] : [...node[name], ...node[name].slice(-1)];
    } else if (values.length > 0 && type !== 'repeat' && type !== 'unknown')
      node[name] = structuredClone(values[at.value % values.length]);
  }
  return { ...changed, ...(metadata !== undefined && { metadata }), ...(status !== undefined && { status }) };
}

/** What a server makes of a request: the object, or its refusal. */
type Outcome = { readonly object: Json } | { readonly code: number; readonly reason: string; readonly message: string };

export interface BuiltInCounts {
  equal: number;
  refused: number;
  notSimulated: number;
  /** Refusals of the API server that are not simulated, by message. */
  readonly notValidated: Map<string, number>;
}

/** Compares the strategies with an API server. */
export class BuiltInComparison {
  readonly counts: BuiltInCounts = { equal: 0, refused: 0, notSimulated: 0, notValidated: new Map() };
  readonly #client: Client;
  readonly #namespace: string;
  #made = 0;

  constructor(client: Client, namespace: string) {
    this.#client = client;
    this.#namespace = namespace;
  }

  /** @throws Error if the API server stores another object, or refuses for another reason */
  async compare({ subject, name, creation, base, change }: BuiltInCase): Promise<void> {
    const { kind, content } = builtInSubjects[subject]!;
    this.#made += 1;
    const metadata = {
      name: this.#nameOf(name),
      ...(kind.scope === 'Namespaced' && { namespace: this.#namespace }),
      ...metadataOf(content),
    };
    const manifest = { ...edited(content, kind.kind, creation), metadata };
    const sent = structuredClone(manifest);
    const real = await outcomeOf(() => this.#client.create(kind, manifest as Manifest<KubeObject>));
    const simulated = this.#simulateCreate(kind, sent, 'object' in real ? real.object : undefined);
    this.#expectSame('create', manifest, real, simulated);
    if (!('object' in real)) return;
    try {
      await this.#compareUpdate(kind, metadata, base === 'manifest' ? manifest : undefined, change);
      if (base === 'status') await this.#compareStatus(kind, metadata, change.length);
    } finally {
      await this.#client.delete(kind, metadata, { gracePeriodSeconds: 0 }).catch((error: unknown) => {
        if (!(error instanceof ApiError)) throw error;
      });
    }
  }

  /** Unique on the server, for cluster-scoped kinds. */
  #nameOf(form: BuiltInCase['name']): string {
    const name = `${this.#namespace}-case-${this.#made}`;
    if (form === 'upper') return name.toUpperCase();
    return form === 'subdomain' ? `${name}.a` : name.padEnd(Number(form.slice('of '.length)) || 0, 'x');
  }

  async #compareUpdate(
    kind: Kind<KubeObject>,
    key: ObjectKey,
    manifest: Json | undefined,
    change: readonly Edit[],
  ): Promise<void> {
    // The controllers may change the object meanwhile.
    for (;;) {
      const old = await this.#client.get(kind, key);
      const { resourceVersion } = old.metadata;
      const base = manifest ?? (old as unknown as Json);
      const metadata = { ...(base.metadata as object), resourceVersion };
      const next = { ...edited(base, kind.kind, change), metadata } as unknown as KubeObject;
      const sent = structuredClone(next) as unknown as Json;
      const real = await outcomeOf(() => this.#client.update(kind, next));
      if ('code' in real && real.code === 409) continue;
      if ('code' in real && real.code === 404) return;
      this.#expectSame('update', { sent, old }, real, this.#simulateUpdate(kind, sent, old as unknown as StoredObject));
      return;
    }
  }

  /**
   * Writes a status as a controller does, and changes labels and the spec beside it. Afterwards, changes of the object
   * differ.
   */
  async #compareStatus(kind: Kind<KubeObject>, key: ObjectKey, choice: number): Promise<void> {
    const choices = statuses.get(kind);
    if (choices === undefined) return;
    for (;;) {
      const old = (await this.#client.get(kind, key)) as unknown as StoredObject;
      const metadata = { ...old.metadata, labels: { ...old.metadata.labels, written: 'beside' } };
      const sent = { ...old, metadata, spec: {}, status: choices[choice % choices.length] };
      const real = await outcomeOf(() =>
        this.#client.update(kind, sent as unknown as KubeObject, { subresource: 'status' }),
      );
      if ('code' in real && real.code === 409) continue;
      if ('code' in real && real.code === 404) return;
      this.#expectSame('status', { sent, old }, real, this.#simulateUpdate(kind, sent, old, 'status'));
      return;
    }
  }

  #simulateCreate(kind: Kind, manifest: Json, real: Json | undefined): Outcome | undefined {
    const { uid = randomUUID(), creationTimestamp = at } = Object(real?.metadata) as KubeObject['metadata'];
    const metadata = { ...Object(manifest.metadata), uid, creationTimestamp };
    return simulate((strategy) => {
      const object = { apiVersion: apiVersionOf(kind), kind: kind.kind, ...manifest, metadata } as StoredObject;
      return strategy.create(strategy.decode(object));
    }, kind);
  }

  #simulateUpdate(kind: Kind, sent: Json, old: StoredObject, subresource?: 'status'): Outcome | undefined {
    const { uid = '', creationTimestamp = '' } = old.metadata;
    const metadata = { ...Object(sent.metadata), uid, creationTimestamp };
    return simulate((strategy) => {
      const object = { apiVersion: apiVersionOf(kind), kind: kind.kind, ...sent, metadata } as StoredObject;
      return strategy.update(strategy.decode(object), old, subresource);
    }, kind);
  }

  #expectSame(what: string, sent: unknown, real: Outcome, simulated: Outcome | undefined): void {
    const fail = (): never => {
      const differing = differences(masked(real), masked(simulated), '');
      throw new Error(`${what}, API server and simulation:\n${differing.join('\n')}\nsent: ${JSON.stringify(sent)}`);
    };
    if (simulated === undefined) this.counts.notSimulated += 1;
    else if ('object' in simulated) {
      if ('object' in real) {
        if (!sameValue(masked(real), masked(simulated))) fail();
        this.counts.equal += 1;
      } else {
        // Not everything is validated.
        if (real.code !== 422 && real.code !== 400 && real.code !== 403) fail();
        const text = real.message.replace(/\S*case\S*/gi, '…').slice(0, 200);
        this.counts.notValidated.set(text, (this.counts.notValidated.get(text) ?? 0) + 1);
      }
    } else if ('object' in real || real.code !== simulated.code || real.reason !== simulated.reason) fail();
    else this.counts.refused += 1;
  }
}

const metadataOf = (content: object): object => {
  const { name: _, ...rest } = Object((content as Json).metadata) as Json;
  return rest;
};

async function outcomeOf(request: () => Promise<unknown>): Promise<Outcome> {
  try {
    return { object: (await request()) as Json };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { code: error.code, reason: error.reason, message: error.status.message ?? '' };
  }
}

/** Returns undefined for what is not simulated. */
function simulate(
  request: (strategy: NonNullable<ReturnType<typeof builtInStrategy>>) => StoredObject,
  kind: Kind,
): Outcome | undefined {
  const strategy = builtInStrategy(kind);
  if (strategy === undefined) return undefined;
  try {
    return { object: request(strategy) };
  } catch (error) {
    if (error instanceof NotSimulatedError) return undefined;
    if (!(error instanceof RefusedError)) throw error;
    return { code: error.status.code, reason: error.status.reason ?? '', message: error.message };
  }
}

/** Lists what differs, each as a path with both values. */
function differences(a: unknown, b: unknown, path: string): string[] {
  if (sameValue(a, b)) return [];
  if (isObject(a) && isObject(b)) {
    return [...new Set([...Object.keys(a), ...Object.keys(b)])].flatMap((name) =>
      differences(a[name], b[name], `${path}.${name}`),
    );
  }
  if (Array.isArray(a) && Array.isArray(b) && a.length === b.length) {
    return a.flatMap((item, index) => differences(item, b[index], `${path}[${index}]`));
  }
  return [`${path}: ${JSON.stringify(a)}, ${JSON.stringify(b)}`];
}

/** Removes what only the API server can know. */
function masked(outcome: Outcome | undefined): unknown {
  if (outcome === undefined || !('object' in outcome)) return outcome;
  const { metadata, ...rest } = outcome.object;
  const { managedFields, resourceVersion, uid, creationTimestamp, ...kept } = Object(metadata) as Json;
  const hidden = JSON.stringify({ ...rest, metadata: kept }, (key, value) => {
    if (key === 'nodePort') return 'a node port';
    if (key === 'clusterIP' && value !== 'None') return 'an address';
    if (key === 'clusterIPs' && value[0] !== 'None') return ['an address'];
    return value;
  });
  return JSON.parse(hidden);
}
