import fc from 'fast-check';
import { Echo } from '../../../src/kinds/echo/kind.ts';
import { PodSet } from '../../../src/kinds/pod-set/kind.ts';
import { ScheduledEcho } from '../../../src/kinds/scheduled-echo/kind.ts';
import { ApiError, type Client } from '../../../src/runtime/client/index.ts';
import type { Kind, KubeObject, Manifest } from '../../../src/runtime/kind/index.ts';
import { ConfigMap } from '../../../src/runtime/kinds/index.ts';
import { NotSimulatedError } from '../../../src/runtime/testing/simulation/strategy.ts';

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
    };

interface Content {
  readonly labels: Readonly<Record<string, string>> | undefined;
  readonly annotations: Readonly<Record<string, string>> | undefined;
  /** Chooses among the specs of the kind. */
  readonly spec: number;
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
];

const name = fc.constantFrom('a', 'b');
const kind = fc.nat(subjects.length - 1);
const precondition = fc.constantFrom<Precondition>('none', 'none', 'last', 'first');
const words = fc.option(fc.dictionary(fc.constantFrom('a', 'b.c/d'), fc.constantFrom('', 'x', 'y'), { minKeys: 1 }), {
  nil: undefined,
});
const content: fc.Arbitrary<Content> = fc.record({ labels: words, annotations: words, spec: fc.nat(9) });

const request: fc.Arbitrary<RandomRequest> = fc.oneof(
  { weight: 1, arbitrary: fc.record({ verb: fc.constantFrom('get' as const, 'getMetadata' as const), kind, name }) },
  {
    weight: 1,
    arbitrary: fc.record({
      verb: fc.constant('list' as const),
      kind,
      selector: fc.constantFrom(undefined, 'a', 'a=x', 'a!=x', 'a in (x,y)', '!a'),
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
      finalizers: fc.uniqueArray(fc.constantFrom('example.com/a', 'example.com/b')),
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
    }),
  },
);

/** Requests about few objects, so that many meet an object. */
export const randomRequests: fc.Arbitrary<readonly RandomRequest[]> = fc.array(request, {
  minLength: 5,
  maxLength: 25,
  size: 'max',
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
      if (error instanceof NotSimulatedError) return notSimulated;
      if (!(error instanceof ApiError)) throw error;
      const { code, reason, serverMessage, causes } = error;
      // Of conflicts with several managers, the API server sorts only the message.
      const inOrder = causes.toSorted((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1));
      return this.#canonical({ code, reason, message: serverMessage, causes: inOrder });
    }
  }

  /** Removes all objects, whatever their finalizers. */
  async clear(): Promise<void> {
    const namespace = this.#namespace;
    for (const { kind } of subjects) {
      for (const { metadata } of (await this.#client.list(kind, { namespace })).items) {
        const key = { namespace, name: metadata.name };
        if (metadata.finalizers)
          await this.#client.patch(kind, key, { type: 'merge', body: { metadata: { finalizers: null } } });
        if (metadata.deletionTimestamp === undefined) await this.#client.delete(kind, key);
      }
    }
  }

  async #result(request: RandomRequest): Promise<unknown> {
    const subject = subjects[request.kind];
    if (subject === undefined) throw new RangeError(`there is no kind ${request.kind}`);
    const { kind } = subject;
    const client = this.#client;
    if (request.verb === 'list') {
      const { selector, limit } = request;
      const options = { ...(selector && { labelSelector: selector }), ...(limit && { limit }) };
      const { items, metadata } = await client.list(kind, { namespace: this.#namespace, ...options });
      return { items, hasMore: Boolean(metadata.continue) };
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
        const options = { ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) };
        return (await client.delete(kind, key, options)) ?? 'gone';
      }
    }
  }

  #manifest(
    { specs, statuses }: Subject,
    key: object,
    { labels, annotations, spec }: Content,
    withStatus = false,
  ): Manifest<KubeObject> {
    const metadata = { ...key, ...(labels && { labels }), ...(annotations && { annotations }) };
    const status = withStatus ? statuses[spec % statuses.length] : {};
    return { ...specs[spec % specs.length], ...status, metadata } as unknown as Manifest<KubeObject>;
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
      return typeof each === 'object' && each !== null && !Array.isArray(each) ? sorted(each) : each;
    });
    return text
      .replaceAll(this.#namespace, '<namespace>')
      .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, '<time>')
      .replaceAll(
        /(in (?:the precondition|record) \()(\d+)(?=\))/g,
        (_, before, version) => before + this.#mark('resourceVersion', version),
      )
      .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, (uid) => this.#mark('uid', uid));
  }

  #mark(member: string, value: string): string {
    if (value.startsWith('<')) return value;
    const mark = this.#marks.get(value) ?? `<${member} ${this.#marks.size + 1}>`;
    this.#marks.set(value, mark);
    return mark;
  }
}

const sorted = (object: object): object =>
  Object.fromEntries(Object.entries(object).sort(([one], [other]) => (one < other ? -1 : 1)));

/** Entries are in the order of their times, and only one of the servers may have begun another second. */
const withoutTimes = (entries: readonly Record<string, unknown>[]): readonly object[] => {
  const nameOf = ({ manager, operation, subresource }: Record<string, unknown>) =>
    `${manager} ${operation} ${subresource}`;
  const inOrder = entries.toSorted((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1));
  return inOrder.map(({ time: _, ...entry }) => sorted(entry));
};
