import type { Kind, KubeObject, Manifest } from '@echoperator/runtime';
import {
  ApiError,
  type Client,
  type DeleteOptions,
  isNotFound,
  type OwnerReference,
} from '@echoperator/runtime/client';
import { ConfigMap, Lease, Pod } from '@echoperator/runtime/kinds';
import fc from 'fast-check';
import { apiVersionOf } from '../../../packages/runtime/src/kind/kind.ts';
import { NotSimulatedError } from '../../../packages/testing/src/simulation/strategy.ts';
import { Echo } from '../../../src/kinds/echo/kind.ts';
import { PodSet } from '../../../src/kinds/pod-set/kind.ts';
import { ScheduledEcho } from '../../../src/kinds/scheduled-echo/kind.ts';

/** Which version or uid a request names: none, that of the object's last state, or that of its first one. */
type Precondition = 'none' | 'last' | 'first';

/** A request about one of few objects. */
export type RandomRequest =
  | { readonly verb: 'get' | 'getMetadata'; readonly kind: number; readonly name: string }
  | {
      readonly verb: 'list';
      readonly kind: number;
      readonly selector: string | undefined;
      readonly limit: number | undefined;
    }
  | {
      readonly verb: 'create';
      readonly kind: number;
      readonly name: string;
      readonly content: Content;
      readonly dryRun: boolean;
    }
  | {
      readonly verb: 'update' | 'updateStatus';
      readonly kind: number;
      readonly name: string;
      readonly content: Content;
      readonly version: Precondition;
    }
  | {
      readonly verb: 'merge' | 'mergeStatus';
      readonly kind: number;
      readonly name: string;
      readonly content: Content;
      readonly version: Precondition;
    }
  | {
      readonly verb: 'apply';
      readonly kind: number;
      readonly name: string;
      readonly content: Content;
      readonly force: boolean;
      readonly manager: string;
      readonly uid: Precondition;
    }
  | {
      readonly verb: 'finalizers';
      readonly kind: number;
      readonly name: string;
      readonly finalizers: readonly string[];
    }
  | {
      readonly verb: 'delete';
      readonly kind: number;
      readonly name: string;
      readonly uid: Precondition;
      readonly version: Precondition;
      readonly policy: PropagationPolicy | undefined;
      readonly graceSeconds: number | undefined;
    }
  | {
      readonly verb: 'deleteCollection';
      readonly kind: number;
      readonly selector: string | undefined;
      readonly policy: PropagationPolicy | undefined;
    };

type PropagationPolicy = NonNullable<DeleteOptions['propagationPolicy']>;

interface Content {
  readonly labels: Readonly<Record<string, string>> | undefined;
  readonly annotations: Readonly<Record<string, string>> | undefined;
  readonly owners: readonly Owner[] | undefined;
  /** Chooses among the specs of the kind. */
  readonly spec: number;
}

/** An object in `ownerReferences`. Its uid is that of its last state, or an unknown one. */
interface Owner {
  readonly kind: number;
  readonly name: string;
  readonly controller: boolean | undefined;
  readonly blockOwnerDeletion: boolean | undefined;
}

interface Subject {
  readonly kind: Kind;
  /** What an object has besides its metadata; some are invalid. */
  readonly specs: readonly object[];
  readonly statuses: readonly object[];
}

const subjects: readonly Subject[] = [
  {
    kind: ConfigMap,
    specs: [{ data: { a: '1' } }, { data: { a: '2', b: '1' } }, {}, { data: { b: '' }, binaryData: { c: 'AAAA' } }],
    statuses: [{}],
  },
  {
    kind: Echo,
    specs: [
      { spec: { message: 'one' } },
      { spec: { message: 'two', ttlSecondsAfterFinished: 5 } },
      { spec: { message: 3 } },
      {},
    ],
    statuses: [
      { status: { phase: 'Running' } },
      { status: { conditions: [] } },
      { status: { jobName: 'a', unknown: 1 } },
    ],
  },
  {
    kind: ScheduledEcho,
    specs: [
      { spec: { message: 'one', schedule: '* * * * *' } },
      { spec: { message: 'one', schedule: '1 * * * *', suspend: true } },
      { spec: { message: 'two' } },
    ],
    statuses: [{ status: {} }, { status: { lastRuns: 'x' } }],
  },
  {
    kind: PodSet,
    specs: [{ spec: { replicas: 1 } }, { spec: { replicas: -1 } }, { spec: { replicas: 2, unknown: true } }],
    statuses: [{ status: { replicas: 1 } }, { status: { readyReplicas: -1 } }],
  },
  {
    kind: Lease,
    specs: [
      { spec: { holderIdentity: 'a', leaseDurationSeconds: 15, renewTime: '2020-01-31T00:00:00.000000Z' } },
      { spec: { holderIdentity: 'b', leaseDurationSeconds: 15, leaseTransitions: 1 } },
      { spec: { holderIdentity: '', leaseDurationSeconds: 0 } },
      {},
    ],
    statuses: [{}],
  },
  {
    kind: Pod,
    specs: [
      { spec: { nodeName: 'a', containers: [{ name: 'a', image: 'a' }] } },
      { spec: { nodeName: 'a', terminationGracePeriodSeconds: 0, containers: [{ name: 'a', image: 'a' }] } },
      { spec: { containers: [{ name: 'a', image: 'b' }] } },
    ],
    statuses: [{ status: { phase: 'Running' } }, { status: { phase: 'Succeeded' } }],
  },
];

function subjectOf(index: number): Subject {
  const subject = subjects[index];
  if (subject === undefined) throw new RangeError(`there is no kind ${index}`);
  return subject;
}

/** Of the object that ends a watch. */
const lastName = 'last';

const name = fc.constantFrom('a', 'b');
const kind = fc.nat(subjects.length - 1);
const precondition = fc.constantFrom<Precondition>('none', 'none', 'last', 'first');
const words = fc.option(fc.dictionary(fc.constantFrom('a', 'b.c/d'), fc.constantFrom('', 'x', 'y'), { minKeys: 1 }), {
  nil: undefined,
});
const flag = fc.constantFrom(undefined, true, false);
const owners = fc.option(
  fc.uniqueArray(fc.record({ kind, name, controller: flag, blockOwnerDeletion: flag }), {
    // What an apply of an empty list does is not simulated.
    minLength: 1,
    maxLength: 3,
    // Nor is an owner that is there twice.
    selector: (owner) => `${owner.kind} ${owner.name}`,
  }),
  { nil: undefined, freq: 2 },
);
const content: fc.Arbitrary<Content> = fc.record({ labels: words, annotations: words, owners, spec: fc.nat(9) });
const selector = fc.constantFrom(undefined, 'a', 'a=x', 'a!=x', 'a in (x,y)', '!a');
const policy = fc.constantFrom<PropagationPolicy | undefined>(undefined, 'Background', 'Foreground', 'Orphan');

const request: fc.Arbitrary<RandomRequest> = fc.oneof(
  { weight: 1, arbitrary: fc.record({ verb: fc.constantFrom('get' as const, 'getMetadata' as const), kind, name }) },
  {
    weight: 1,
    arbitrary: fc.record({
      verb: fc.constant('list' as const),
      kind,
      selector,
      limit: fc.constantFrom(undefined, 1),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ verb: fc.constant('create' as const), kind, name, content, dryRun: fc.boolean() }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      verb: fc.constantFrom('update' as const, 'updateStatus' as const),
      kind,
      name,
      content,
      version: precondition,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      verb: fc.constantFrom('merge' as const, 'mergeStatus' as const),
      kind,
      name,
      content,
      version: precondition,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      verb: fc.constant('apply' as const),
      kind,
      name,
      content,
      force: fc.boolean(),
      manager: fc.constantFrom('one', 'two'),
      uid: precondition,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      verb: fc.constant('finalizers' as const),
      kind,
      name,
      finalizers: fc.uniqueArray(fc.constantFrom('example.com/a', 'example.com/b', 'foregroundDeletion', 'orphan')),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      verb: fc.constant('delete' as const),
      kind,
      name,
      uid: precondition,
      version: precondition,
      policy,
      graceSeconds: fc.constantFrom(undefined, undefined, 0, 5, 60),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ verb: fc.constant('deleteCollection' as const), kind, selector, policy }),
  },
);

/** Requests about few objects, so that many meet an object. */
const randomRequests: fc.Arbitrary<readonly RandomRequest[]> = fc.array(request, {
  minLength: 5,
  maxLength: 25,
  size: 'max',
});

/** A watch of one kind during a history. */
export interface RandomWatch {
  readonly kind: number;
  readonly selector: string | undefined;
  /** It starts before the request of this number: from the version before the first one, unless it is streamed. */
  readonly start: number;
  /** Lists the objects first (`sendInitialEvents`). */
  readonly isStreamed: boolean;
}

export interface RandomHistory {
  readonly requests: readonly RandomRequest[];
  readonly watch: RandomWatch;
}

export const randomHistories: fc.Arbitrary<RandomHistory> = fc.record({
  requests: randomRequests,
  watch: fc.record({ kind, selector, start: fc.nat(25), isStreamed: fc.boolean() }),
});

/** The response of a server, without what differs between any two servers. */
export type CanonicalResponse = string;

/** The simulated server does not know the API server's response. */
export const notSimulated: CanonicalResponse = 'not simulated';

export const isRefusal = (response: CanonicalResponse): boolean => 'code' in JSON.parse(response);

/** Sends random requests to a server, and records its responses. */
export class RequestSender {
  readonly #client: Client;
  readonly #namespace: string;
  /** The states of each object that the server has shown, by kind and name. */
  readonly #seen = new Map<string, KubeObject[]>();
  /** The last request that the simulated server does not know. */
  notSimulated = '';
  /** Marks for uids and versions, in the order in which they were seen. */
  readonly #marks = new Map<string, string>();

  constructor(client: Client, namespace: string) {
    this.#client = client;
    this.#namespace = namespace;
  }

  /** Sends a request and returns the response. */
  async send(request: RandomRequest): Promise<CanonicalResponse> {
    try {
      return this.#canonical(await this.#result(request));
    } catch (error) {
      if (error instanceof NotSimulatedError) {
        this.notSimulated = error.message;
        return notSimulated;
      }
      if (!(error instanceof ApiError)) throw error;
      const { code, reason, serverMessage, causes } = error;
      // Of conflicts with several managers, the API server sorts only the message. It may validate metadata twice, and
      // then repeats the causes.
      const texts = new Set(causes.map((cause) => JSON.stringify(sorted(cause))));
      const inOrder = [...texts].sort().map((cause) => JSON.parse(cause));
      const details = { ...error.status.details, causes: inOrder };
      // What changed of a pod's spec is not simulated.
      if (kindOf(request) === Pod && reason === 'Invalid') return this.#canonical({ code, reason });
      // The managers are in the order of the times of their writes.
      const message = serverMessage
        .split(/\n?(?=conflicts with ")/)
        .sort()
        .join();
      return this.#canonical({ code, reason, message, details });
    }
  }

  /** The version of a kind's list. */
  async version({ kind: index }: RandomWatch): Promise<string> {
    const { metadata } = await this.#client.list(subjectOf(index).kind, { namespace: this.#namespace });
    return metadata.resourceVersion;
  }

  /**
   * Watches until the event of an object that {@link endWatch} creates. Returns the events.
   *
   * @param started is called when later changes are certain to be events
   */
  async watch(
    watch: RandomWatch,
    resourceVersion: string,
    { started, signal }: { readonly started: () => void; readonly signal: AbortSignal },
  ): Promise<readonly CanonicalResponse[]> {
    const { kind } = subjectOf(watch.kind);
    const events: unknown[] = [];
    const stream = this.#client.watch(kind, {
      namespace: this.#namespace,
      ...(watch.selector && { labelSelector: watch.selector }),
      ...(watch.isStreamed ? { sendInitialEvents: true } : { resourceVersion }),
      timeoutSeconds: 300,
      signal,
    });
    // The version tells where the watch starts.
    if (!watch.isStreamed) started();
    for await (const event of stream) {
      const { resourceVersion: _, ...metadata } = event.object.metadata;
      if (metadata.name === lastName) return events.map((each) => this.#canonical(each));
      if (event.type !== 'BOOKMARK') events.push(event);
      else if (metadata.annotations !== undefined) {
        // The version is that of any last write, which may be one to another kind. The simulation sends no other
        // bookmarks.
        events.push({ ...event, object: { metadata } });
        started();
      }
    }
    throw new Error('the watch has ended');
  }

  /** Creates an object that the watch selects. */
  async endWatch({ kind: index, selector }: RandomWatch): Promise<void> {
    const { kind, specs } = subjectOf(index);
    const labels = selector === '!a' || selector === 'a!=x' ? {} : { a: 'x' };
    const metadata = { namespace: this.#namespace, name: lastName, labels };
    await this.#client.create(kind, { ...specs[0], metadata } as unknown as Manifest<KubeObject>);
  }

  /** Removes all objects, whatever their finalizers. */
  async clear(): Promise<void> {
    const namespace = this.#namespace;
    for (const { kind } of subjects) {
      for (const { metadata } of (await this.#client.list(kind, { namespace })).items) {
        const key = { namespace, name: metadata.name };
        if (metadata.finalizers)
          await this.#client.patch(kind, key, { type: 'merge', body: { metadata: { finalizers: null } } });
        await this.#client.delete(kind, key, { gracePeriodSeconds: 0 }).catch(ignoreNotFound);
      }
    }
  }

  async #result(request: RandomRequest): Promise<unknown> {
    const subject = subjectOf(request.kind);
    const { kind } = subject;
    const client = this.#client;
    if (request.verb === 'list') {
      const { selector, limit } = request;
      const options = { ...(selector && { labelSelector: selector }), ...(limit && { limit }) };
      const { items, metadata } = await client.list(kind, { namespace: this.#namespace, ...options });
      return { items, hasMore: Boolean(metadata.continue) };
    }
    if (request.verb === 'deleteCollection') {
      const { selector, policy } = request;
      const options = { ...(selector && { labelSelector: selector }), ...(policy && { propagationPolicy: policy }) };
      await client.deleteCollection(kind, { namespace: this.#namespace, ...options });
      return (await client.list(kind, { namespace: this.#namespace })).items;
    }
    const key = { namespace: this.#namespace, name: request.name };
    const id = `${kind.kind} ${request.name}`;
    const versionOf = (which: Precondition) => this.#known(id, which)?.metadata.resourceVersion;
    const uidOf = (which: Precondition) => this.#known(id, which)?.metadata.uid;
    const keep = <T extends KubeObject | undefined>(object: T): T => {
      if (object !== undefined) this.#seen.set(id, [...(this.#seen.get(id) ?? []), object]);
      return object;
    };
    switch (request.verb) {
      case 'get':
        return keep(await client.get(kind, key));
      case 'getMetadata':
        return client.getMetadata(kind, key);
      case 'create': {
        const manifest = this.#manifest(subject, key, request.content);
        return request.dryRun
          ? client.create(kind, manifest, { dryRun: true })
          : keep(await client.create(kind, manifest));
      }
      case 'update':
      case 'updateStatus': {
        const { metadata, ...rest } = this.#manifest(subject, key, request.content, request.verb === 'updateStatus');
        const resourceVersion = versionOf(request.version);
        const object = {
          ...rest,
          metadata: { ...metadata, ...(resourceVersion && { resourceVersion }) },
        } as KubeObject;
        const subresource = request.verb === 'updateStatus' ? { subresource: 'status' as const } : {};
        return keep(await client.update(kind, object, subresource));
      }
      case 'merge':
      case 'mergeStatus': {
        const { metadata, ...rest } = this.#manifest(subject, key, request.content, request.verb === 'mergeStatus');
        const { name: _, namespace: __, ...others } = metadata;
        const resourceVersion = versionOf(request.version);
        const body = { ...rest, metadata: { ...others, ...(resourceVersion && { resourceVersion }) } };
        const subresource = request.verb === 'mergeStatus' ? { subresource: 'status' as const } : {};
        return keep(await client.patch(kind, key, { type: 'merge', body }, subresource));
      }
      case 'apply': {
        const { force, manager } = request;
        const uid = uidOf(request.uid);
        const options = { force, fieldManager: manager, ...(uid && { uid }) };
        return keep(await client.apply(kind, this.#manifest(subject, key, request.content), options));
      }
      case 'finalizers': {
        const body = [{ op: 'add', path: '/metadata/finalizers', value: request.finalizers }] as const;
        return keep(await client.patch(kind, key, { type: 'json', body }));
      }
      case 'delete': {
        const [uid, resourceVersion] = [uidOf(request.uid), versionOf(request.version)];
        const { policy, graceSeconds } = request;
        const options = {
          ...(uid && { uid }),
          ...(resourceVersion && { resourceVersion }),
          ...(policy && { propagationPolicy: policy }),
          ...(graceSeconds !== undefined && { gracePeriodSeconds: graceSeconds }),
        };
        return (await client.delete(kind, key, options)) ?? 'gone';
      }
    }
  }

  #manifest(
    { specs, statuses }: Subject,
    key: object,
    { labels, annotations, owners, spec }: Content,
    withStatus = false,
  ): Manifest<KubeObject> {
    const metadata = {
      ...key,
      ...(labels && { labels }),
      ...(annotations && { annotations }),
      ...(owners && { ownerReferences: owners.map((owner) => this.#ownerReference(owner)) }),
    };
    const status = withStatus ? statuses[spec % statuses.length] : {};
    return { ...specs[spec % specs.length], ...status, metadata } as unknown as Manifest<KubeObject>;
  }

  #ownerReference({ kind: index, name, controller, blockOwnerDeletion }: Owner): OwnerReference {
    const { kind } = subjectOf(index);
    const uid = this.#known(`${kind.kind} ${name}`, 'last')?.metadata.uid ?? `unknown-${kind.kind}-${name}`;
    return {
      apiVersion: apiVersionOf(kind),
      kind: kind.kind,
      name,
      uid,
      ...(controller !== undefined && { controller }),
      ...(blockOwnerDeletion !== undefined && { blockOwnerDeletion }),
    };
  }

  #known(id: string, which: Precondition): KubeObject | undefined {
    const states = this.#seen.get(id) ?? [];
    return which === 'none' ? undefined : states.at(which === 'last' ? -1 : 0);
  }

  /** Replaces uids, versions and times by marks. */
  #canonical(value: unknown): CanonicalResponse {
    const text = JSON.stringify(value, (member, each) => {
      if (member === 'resourceVersion' || member === 'uid') return this.#mark(member, String(each));
      if (member === 'managedFields' && Array.isArray(each)) return withoutTimes(each);
      return isRecord(each) ? sorted(each) : each;
    });
    const masked = text
      .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, '<time>')
      .replaceAll(
        /(in (?:the precondition|record) \()(\d+)(?=\))/g,
        (_, before, version) => before + this.#mark('resourceVersion', version),
      )
      .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, (uid) => this.#mark('uid', uid));
    // Keys of field sets contain uids.
    return JSON.stringify(JSON.parse(masked), (_, each) => (isRecord(each) ? sorted(each) : each));
  }

  #mark(member: string, value: string): string {
    if (value.startsWith('<')) return value;
    const mark = this.#marks.get(value) ?? `<${member} ${this.#marks.size + 1}>`;
    this.#marks.set(value, mark);
    return mark;
  }
}

const kindOf = (request: RandomRequest): Kind => subjectOf(request.kind).kind;

function ignoreNotFound(error: unknown): void {
  if (!isNotFound(error)) throw error;
}

const isRecord = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const sorted = (object: object): object =>
  Object.fromEntries(Object.entries(object).sort(([one], [other]) => (one < other ? -1 : 1)));

/** Entries are in the order of their times, and only one of the servers may have begun another second. */
const withoutTimes = (entries: readonly Record<string, unknown>[]): readonly object[] => {
  const nameOf = ({ manager, operation, subresource }: Record<string, unknown>) =>
    `${manager} ${operation} ${subresource}`;
  const inOrder = entries.toSorted((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1));
  return inOrder.map(({ time: _, ...entry }) => sorted(entry));
};
