import { deepStrictEqual, strictEqual } from 'node:assert/strict';
import { defineKind, type Kind } from '@echoperator/runtime';
import { ApiError } from '@echoperator/runtime/client';
import { ConfigMap, Deployment, Service } from '@echoperator/runtime/kinds';
import type { ApiServer } from '@echoperator/testing';
import fc from 'fast-check';
import * as Type from 'typebox';
import { isObject } from '../../../packages/runtime/src/apply/json.ts';
import { schemaOf } from '../../../packages/runtime/src/apply/kind-schema.ts';
import { collectionPath, objectPath } from '../../../packages/runtime/src/client/resource-path.ts';
import { Transport } from '../../../packages/runtime/src/client/transport.ts';
import { apiVersionOf } from '../../../packages/runtime/src/kind/kind.ts';
import {
  applyFields,
  customResetFields,
  keepTimesIfUnchanged,
  trackFields,
} from '../../../packages/testing/src/simulation/field-managers.ts';
import { mergePatch } from '../../../packages/testing/src/simulation/patches.ts';
import {
  type FieldsV1,
  type ManagedFieldsEntry,
  RefusedError,
  type StoredMetadata,
  type StoredObject,
} from '../../../packages/testing/src/simulation/strategy.ts';

/** The numbers of steps by their result: `created`, `changed`, `unchanged`, `conflict`, `refused`. */
export type StepCounts = Record<string, number>;

type Json = Readonly<Record<string, unknown>>;

/**
 * Runs random histories of writes on an API server that has {@link Shapes} and no controllers. Compares each result
 * with that of the simulated field managers for the same object: the managed fields with their times, the merged
 * object, and the conflicts.
 *
 * @throws Error with the shortest history that fast-check finds
 */
export async function compareHistories(
  server: ApiServer,
  { seed, histories }: { readonly seed: number; readonly histories: number },
): Promise<StepCounts> {
  const counts: StepCounts = {};
  const transport = new Transport(server.connection, { userAgent: 'test' });
  let names = 0;
  try {
    await fc.assert(
      fc.asyncProperty(history, async ({ subject, steps }) => {
        names += 1;
        const run = new Run(transport, subjects[subject], `a${names}`);
        for (const step of steps) {
          // JSON.parse: generated objects may lack a prototype.
          const result = await run.execute(JSON.parse(JSON.stringify(step)) as Step);
          counts[result] = (counts[result] ?? 0) + 1;
        }
      }),
      { seed, numRuns: histories },
    );
  } finally {
    await transport.close();
  }
  return counts;
}

const optional = <S extends object>(schema: S) => Type.Optional(Type.Unsafe<unknown>(schema));
const text = { type: 'string' };

/** Has every merge strategy. */
export const Shapes = defineKind({
  group: 'test.example',
  version: 'v1',
  kind: 'Shapes',
  plural: 'shapes',
  description: 'Has every merge strategy.',
  spec: Type.Object({
    text: optional(text),
    map: optional({ type: 'object', additionalProperties: text }),
    structs: optional({
      type: 'object',
      additionalProperties: { type: 'object', properties: { a: text, b: text } },
    }),
    atomicMap: optional({ type: 'object', additionalProperties: text, 'x-kubernetes-map-type': 'atomic' }),
    list: optional({ type: 'array', items: text }),
    set: optional({ type: 'array', items: text, 'x-kubernetes-list-type': 'set' }),
    items: optional({
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['name'],
      items: {
        type: 'object',
        required: ['name'],
        properties: {
          name: text,
          value: text,
          nested: { type: 'object', properties: { a: text, b: text } },
          set: { type: 'array', items: text, 'x-kubernetes-list-type': 'set' },
        },
      },
    }),
    ports: optional({
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['port', 'protocol'],
      items: {
        type: 'object',
        required: ['port'],
        properties: { port: { type: 'integer' }, protocol: { ...text, default: 'TCP' }, label: text },
      },
    }),
    nested: optional({
      type: 'object',
      properties: { a: text, b: { type: 'object', properties: { c: text, d: text } } },
    }),
    free: optional({ type: 'object', 'x-kubernetes-preserve-unknown-fields': true }),
    intOrString: optional({ 'x-kubernetes-int-or-string': true }),
  }),
  status: Type.Object({ phase: Type.String(), counts: Type.Record(Type.String(), Type.Integer()) }),
});

interface Subject {
  readonly kind: Kind;
  /** What an object needs, beside the metadata. */
  readonly required: Json;
  readonly content: fc.Arbitrary<Json>;
  readonly status?: fc.Arbitrary<Json>;
  readonly resetFields: (subresource: 'status' | undefined) => FieldsV1;
  /** Removes what the strategy adds to a new object. */
  readonly beforeStrategy: (created: StoredObject) => StoredObject;
}

const some = <T extends object>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }) =>
  fc.record(model, { requiredKeys: [] });
const letter = fc.constantFrom('a', 'b', 'c');
const texts = fc.uniqueArray(fc.constantFrom('a', 'b', 'c', 'd & <e>', '"f"'), { maxLength: 4 });
const map = fc.dictionary(letter, letter, { maxKeys: 3 });
const list = (item: fc.Arbitrary<Json>, ...keys: string[]) =>
  fc.uniqueArray(item, { maxLength: 4, selector: (each) => JSON.stringify(keys.map((key) => each[key])) });

const shapes: Subject = {
  kind: Shapes,
  required: { spec: {} },
  content: fc.record({
    spec: some({
      text: letter,
      map,
      structs: fc.dictionary(letter, some({ a: letter, b: letter }), { maxKeys: 2 }),
      atomicMap: map,
      list: fc.array(letter, { maxLength: 3 }),
      set: texts,
      items: list(
        fc
          .tuple(
            fc.constantFrom('a', 'b', 'c', 'd'),
            some({ value: letter, nested: some({ a: letter, b: letter }), set: texts }),
          )
          .map(([name, rest]): Json => ({ name, ...rest })),
        'name',
      ),
      ports: list(
        fc
          .tuple(fc.constantFrom(1, 2, 10), some({ protocol: fc.constant('UDP'), label: letter }))
          .map(([port, rest]): Json => ({ port, ...rest })),
        'port',
        'protocol',
      ),
      nested: some({ a: letter, b: some({ c: letter, d: letter }) }),
      free: fc.constantFrom<Json>(
        {},
        { a: 1 },
        { a: 2, b: [1, 2] },
        { a: { c: 1 } },
        { a: { c: 2, d: true } },
        { a: [{ name: 'a' }] },
        { b: { a: { b: {} } } },
      ),
      intOrString: fc.constantFrom(1, '1', 'a'),
    }),
  }),
  status: some({
    phase: letter,
    counts: fc.dictionary(letter, fc.nat(2), { maxKeys: 2 }),
    conditions: list(
      fc.record({
        type: fc.constantFrom('Ready', 'Done'),
        status: fc.constantFrom('True', 'False'),
        reason: fc.constantFrom('A', 'B'),
        message: letter,
        lastTransitionTime: fc.constant('2020-01-01T00:00:00Z'),
      }),
      'type',
    ),
  }),
  resetFields: customResetFields,
  beforeStrategy: (object) => object,
};

const configMaps: Subject = {
  kind: ConfigMap,
  required: {},
  content: some({
    data: map,
    binaryData: fc.dictionary(fc.constantFrom('x', 'y'), fc.constantFrom('YQ==', 'Yg=='), { maxKeys: 2 }),
  }),
  resetFields: () => ({}),
  beforeStrategy: (object) => object,
};

const services: Subject = {
  kind: Service,
  required: { spec: { ports: [{ port: 80 }] } },
  content: fc.record({
    spec: some({
      selector: map,
      sessionAffinity: fc.constantFrom('None', 'ClientIP'),
      publishNotReadyAddresses: fc.boolean(),
      ports: list(
        fc
          .tuple(
            fc.constantFrom('a', 'b', 'c'),
            fc.constantFrom(80, 81, 443),
            some({ protocol: fc.constantFrom('TCP', 'UDP'), targetPort: fc.constantFrom<unknown>(8080, 'http') }),
          )
          .map(([name, port, rest]): Json => ({ name, port, ...rest })),
        'name',
      ),
    }),
  }),
  status: some({
    loadBalancer: some({
      ingress: fc.array(fc.record({ ip: fc.constantFrom('1.2.3.4', '1.2.3.5'), ipMode: fc.constant('VIP') }), {
        maxLength: 2,
      }),
    }),
    conditions: list(
      fc.record({
        type: fc.constantFrom('Ready', 'Done'),
        status: fc.constantFrom('True', 'False'),
        reason: fc.constantFrom('A', 'B'),
        message: letter,
        lastTransitionTime: fc.constant('2020-01-01T00:00:00Z'),
      }),
      'type',
    ),
  }),
  resetFields: (subresource) => (subresource === 'status' ? { 'f:spec': {} } : { 'f:status': {} }),
  beforeStrategy: (object) => {
    const { clusterIP: _, clusterIPs: __, ipFamilies: ___, ipFamilyPolicy: ____, ...spec } = object.spec as Json;
    return { ...object, spec };
  },
};

const deployments: Subject = {
  kind: Deployment,
  required: {
    spec: {
      selector: { matchLabels: { app: 'a' } },
      template: { metadata: { labels: { app: 'a' } }, spec: { containers: [{ name: 'a', image: 'a' }] } },
    },
  },
  content: fc.record({
    spec: some({
      replicas: fc.nat(2),
      paused: fc.boolean(),
      minReadySeconds: fc.nat(1),
      strategy: fc.constantFrom<Json>(
        { type: 'Recreate' },
        { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1 } },
        { rollingUpdate: { maxUnavailable: '50%' } },
      ),
      template: some({
        metadata: fc.record({
          labels: fc.constantFrom<Json>({ app: 'a' }, { app: 'a', b: 'b' }, { app: 'a', c: 'c' }),
          annotations: map,
        }),
        spec: some({
          containers: list(
            fc
              .tuple(
                letter,
                some({
                  image: letter,
                  args: fc.array(letter, { maxLength: 2 }),
                  env: list(
                    fc.tuple(letter, some({ value: letter })).map(([name, rest]): Json => ({ name, ...rest })),
                    'name',
                  ),
                  ports: list(
                    fc
                      .tuple(fc.constantFrom(80, 81), some({ protocol: fc.constant('UDP'), name: letter }))
                      .map(([containerPort, rest]): Json => ({ containerPort, ...rest })),
                    'containerPort',
                    'protocol',
                  ),
                  resources: some({
                    limits: some({ cpu: fc.constantFrom('1', '1000m', '2'), memory: fc.constant('1Gi') }),
                  }),
                  securityContext: some({ runAsUser: fc.nat(1), capabilities: some({ drop: fc.constant(['ALL']) }) }),
                }),
              )
              .map(([name, rest]): Json => ({ name, ...rest })),
            'name',
          ),
          nodeSelector: map,
          tolerations: fc.array(fc.record({ key: letter, operator: fc.constant('Exists') }), { maxLength: 2 }),
          volumes: list(fc.record({ name: letter, emptyDir: some({ medium: fc.constant('Memory') }) }), 'name'),
          terminationGracePeriodSeconds: fc.nat(1),
        }),
      }),
    }),
  }),
  status: some({
    observedGeneration: fc.nat(2),
    replicas: fc.nat(2),
    conditions: list(
      fc.record({
        type: fc.constantFrom('Available', 'Progressing'),
        status: fc.constantFrom('True', 'False'),
        reason: letter,
      }),
      'type',
    ),
  }),
  resetFields: (subresource) =>
    subresource === 'status' ? { 'f:spec': {}, 'f:metadata': { 'f:labels': {} } } : { 'f:status': {} },
  beforeStrategy: (object) => object,
};

/** Replaces members by null, which removes them in a merge patch. */
const withNulls = (content: Json, depth: number, random: number): Json =>
  Object.fromEntries(
    Object.entries(content).map(([name, value], index) => {
      if (depth > 0 && isObject(value)) return [name, withNulls(value, depth - 1, random)];
      return [name, (random >> (index % 8)) % 3 === 0 ? null : value];
    }),
  );

const stepsOf = ({ content, status, required }: Subject) =>
  fc.record({
    verb: fc.constantFrom('create', 'update', 'patch', 'patch', 'apply', 'apply', 'apply', 'apply'),
    subresource:
      status === undefined
        ? fc.constant(undefined)
        : fc.constantFrom(undefined, undefined, undefined, 'status' as const),
    manager: fc.constantFrom('a', 'b', 'c'),
    force: fc.boolean(),
    metadata: some({
      labels: map,
      annotations: map,
      finalizers: fc.uniqueArray(fc.constantFrom('test.example/a', 'test.example/b', 'test.example/c')),
      ownerReferences: list(
        fc.record({
          apiVersion: fc.constant('v1'),
          kind: fc.constant('Pod'),
          name: letter,
          uid: fc.constantFrom('1', '2'),
        }),
        'uid',
      ),
    }),
    content: fc.oneof(
      content,
      content.map((each) => mergePatch(required, each) as Json),
    ),
    status: status ?? fc.constant({}),
    /** Which `managedFields` an update sends. */
    managedFields: fc.constantFrom(
      'as read',
      'as read',
      'none',
      'none',
      'none',
      'aged',
      'aged',
      'empty',
      'empty entry',
    ),
    /** An apply with the content of the manager's last one. */
    isRepeated: fc.boolean(),
    random: fc.nat(255),
  });

type Step = ReturnType<typeof stepsOf> extends fc.Arbitrary<infer T> ? T : never;

const subjects = { shapes, configMaps, services, deployments };

const history = fc
  .constantFrom('shapes' as const, ...(Object.keys(subjects) as (keyof typeof subjects)[]))
  .chain((subject) =>
    fc.record({
      subject: fc.constant(subject),
      steps: fc.array(stepsOf(subjects[subject]), { minLength: 2, maxLength: 14, size: 'max' }),
    }),
  );

/** One object of the API server. */
class Run {
  readonly #transport: Transport;
  readonly #subject: Subject;
  readonly #name: string;
  /** As the server has stored it. */
  #live: StoredObject | undefined;
  readonly #applied = new Map<string, Step>();

  constructor(transport: Transport, subject: Subject, name: string) {
    this.#transport = transport;
    this.#subject = subject;
    this.#name = name;
  }

  async execute(step: Step): Promise<string> {
    const live = this.#live;
    if (live === undefined)
      return step.verb === 'create' || step.verb === 'update' ? this.#create(step) : this.#apply(step);
    if (step.verb === 'apply') return this.#apply(step);
    return this.#update(step, live);
  }

  async #create(step: Step): Promise<string> {
    const { kind, required } = this.#subject;
    const body = this.#body(mergePatch(required, step.content) as Json, step.metadata);
    const created = await this.#send('POST', collectionPath(kind, namespace), body, step);
    if (created instanceof ApiError) return 'refused';
    const after = this.#subject.beforeStrategy(withoutManagers(created));
    this.#expect(created, trackFields({ ...this.#write(step, created, undefined), before: undefined, after }));
    return 'created';
  }

  async #update(step: Step, live: StoredObject): Promise<string> {
    const { kind } = this.#subject;
    const { subresource, content, status, random } = step;
    const path = objectPath(kind, live.metadata, subresource);
    const patch = { ...content, ...(subresource && { status }) };
    if (step.verb === 'patch') {
      const body = withNulls({ metadata: step.metadata, ...patch }, 4, random);
      const patched = await this.#send('PATCH', path, body, step);
      if (patched instanceof ApiError) return 'refused';
      const after = this.#sent(mergePatch(live, body) as StoredObject, patched);
      return this.#expectUpdate(step, live, patched, after);
    }
    const managedFields = sentManagedFields(step.managedFields, live.metadata.managedFields ?? []);
    const sent =
      step.managedFields === 'aged' ? live : { ...live, ...patch, metadata: { ...live.metadata, ...step.metadata } };
    const { managedFields: _, ...metadata } = sent.metadata;
    const body = { ...sent, metadata: { ...metadata, ...(managedFields && { managedFields }) } } as StoredObject;
    const updated = await this.#send('PUT', path, body, step);
    if (updated instanceof ApiError) return 'refused';
    return this.#expectUpdate(step, live, updated, this.#sent(body, updated));
  }

  /**
   * Returns a sent object as the server decodes it, of which only the response is known. Of a custom kind the response
   * shows not what the write resets, and that is known without the server.
   */
  #sent(body: StoredObject, response: StoredObject): StoredObject {
    if (this.#subject === shapes) return withProtocols({ ...response, ...decodedParts(body, response) });
    const { managedFields } = body.metadata;
    const object = withoutManagers(response);
    return { ...object, metadata: { ...object.metadata, ...(managedFields && { managedFields }) } };
  }

  #expectUpdate(step: Step, live: StoredObject, stored: StoredObject, after: StoredObject): string {
    const expected = trackFields({ ...this.#write(step, stored, step.subresource), before: live, after });
    return this.#expect(stored, {
      ...stored,
      metadata: { ...stored.metadata, managedFields: expected.metadata.managedFields } as never,
    });
  }

  async #apply(step: Step): Promise<string> {
    const live = this.#live;
    const { kind, required } = this.#subject;
    const subresource = live === undefined ? undefined : step.subresource;
    const key = `${step.manager} ${subresource}`;
    const { metadata, content, status } = (step.isRepeated && this.#applied.get(key)) || step;
    const complete = live === undefined ? (mergePatch(required, content) as Json) : content;
    const applied = this.#body({ ...complete, ...(subresource && { status }) }, metadata);
    const path = objectPath(kind, applied.metadata, subresource);
    const stored = await this.#send('PATCH', path, applied, step, { force: String(step.force) });
    const write = { ...this.#write(step, stored instanceof ApiError ? undefined : stored, subresource), live, applied };
    if (stored instanceof ApiError) {
      if (stored.code !== 409) return 'refused';
      deepStrictEqual(
        conflictOf(() => applyFields({ ...write, force: step.force })),
        {
          message: step.force ? '' : sortedLines(stored.status.message),
          causes: sortedCauses(stored.status),
        },
      );
      return 'conflict';
    }
    this.#applied.set(key, { ...step, metadata, content, status });
    const merged = applyFields({ ...write, force: step.force });
    await this.#expectMerged(merged, stored, step, subresource);
    // An empty list or map in a custom object's metadata is a change, though it is never stored.
    const { managedFields, labels, annotations, finalizers, ownerReferences } = merged.metadata;
    const own = this.#subject === shapes ? { labels, annotations, finalizers, ownerReferences } : {};
    const known = Object.entries({ ...own, managedFields }).filter(([, value]) => value !== undefined);
    return this.#expect(stored, { ...stored, metadata: { ...stored.metadata, ...Object.fromEntries(known) } });
  }

  /** The server must store the merged object as it has stored its own, with the same defaults. */
  async #expectMerged(
    merged: StoredObject,
    stored: StoredObject,
    step: Step,
    subresource: 'status' | undefined,
  ): Promise<void> {
    const { kind } = this.#subject;
    const isNew = this.#live === undefined;
    const name = isNew ? `${this.#name}-copy` : this.#name;
    const { resourceVersion } = stored.metadata;
    const metadata = { ...withoutManagers(merged).metadata, name, ...(!isNew && { resourceVersion }) };
    const copy = isNew
      ? await this.#send('POST', collectionPath(kind, namespace), { ...merged, metadata }, step, { dryRun: 'All' })
      : await this.#send('PUT', objectPath(kind, stored.metadata, subresource), { ...merged, metadata }, step, {
          dryRun: 'All',
        });
    if (copy instanceof ApiError) throw copy;
    deepStrictEqual(comparable(copy), comparable(stored));
  }

  #write(step: Step, stored: StoredObject | undefined, subresource: 'status' | undefined) {
    const { kind, resetFields } = this.#subject;
    // The server's clock, if it has set a time. Other times are old.
    const times = stored?.metadata.managedFields?.map(({ time = '' }) => time) ?? [];
    const newest = times.sort().at(-1) ?? '';
    const timeIso = newest > '2021' ? newest : 'now';
    const { manager } = step;
    const rest = {
      apiVersion: apiVersionOf(kind),
      schema: schemaOf(kind),
      resetFields: resetFields(subresource),
      timeIso,
    };
    return { manager, ...rest, ...(subresource && { subresource }) };
  }

  #body(content: Json, metadata: Json): StoredObject {
    const { kind } = this.#subject;
    return {
      apiVersion: apiVersionOf(kind),
      kind: kind.kind,
      ...content,
      metadata: { ...metadata, name: this.#name, namespace },
    };
  }

  #expect(stored: StoredObject, tracked: StoredObject): string {
    const before = this.#live;
    const expected = before === undefined ? tracked : keepTimesIfUnchanged(before, withVersionOf(before, tracked));
    deepStrictEqual(expected.metadata.managedFields ?? [], stored.metadata.managedFields ?? []);
    this.#live = stored;
    return before?.metadata.resourceVersion === stored.metadata.resourceVersion ? 'unchanged' : 'changed';
  }

  async #send(
    method: 'POST' | 'PUT' | 'PATCH',
    path: string,
    body: object,
    { manager }: Step,
    options: Readonly<Record<string, string>> = {},
  ): Promise<StoredObject | ApiError> {
    const query = new URLSearchParams({ fieldManager: manager, ...options }).toString();
    const contentType =
      method !== 'PATCH'
        ? 'application/json'
        : options.force
          ? 'application/apply-patch+yaml'
          : 'application/merge-patch+json';
    try {
      const stored = (await this.#transport.request({ method, path, query, body, contentType })) as StoredObject;
      // The response to an apply can have empty lists and maps in the metadata, which the server drops when it reads
      // the object.
      return this.#subject === shapes ? { ...stored, ...decodedParts(stored, stored) } : stored;
    } catch (error) {
      if (error instanceof ApiError) return error;
      throw error;
    }
  }
}

const namespace = 'default';

function withoutManagers(object: StoredObject): StoredObject {
  const { managedFields: _, ...metadata } = object.metadata;
  return { ...object, metadata };
}

/** Only the storage sets the version. */
const withVersionOf = ({ metadata: { resourceVersion } }: StoredObject, object: StoredObject): StoredObject => ({
  ...object,
  metadata: { ...object.metadata, ...(resourceVersion && { resourceVersion }) },
});

function sentManagedFields(choice: Step['managedFields'], live: readonly ManagedFieldsEntry[]): unknown[] | undefined {
  if (choice === 'none') return undefined;
  if (choice === 'as read') return [...live];
  if (choice === 'aged') return live.map((entry, index) => ({ ...entry, time: `2020-01-01T00:00:0${index % 3}Z` }));
  return choice === 'empty' ? [] : [{}];
}

/** What the server decodes of a custom object before its strategy. It drops empty lists and maps of the metadata. */
const decodedParts = ({ spec, status, metadata }: StoredObject, { metadata: stored }: StoredObject) => ({
  ...(spec !== undefined && { spec }),
  ...(status !== undefined && { status }),
  metadata: Object.fromEntries(
    Object.entries({ ...stored, managedFields: undefined, ...metadata }).filter(
      ([, value]) => typeof value !== 'object' || Object.keys(value).length > 0,
    ),
  ) as unknown as StoredMetadata,
});

function withProtocols(object: StoredObject): StoredObject {
  const spec = object.spec as { readonly ports?: readonly Json[] } | undefined;
  if (spec?.ports === undefined) return object;
  return {
    ...object,
    spec: { ...spec, ports: spec.ports.map((port) => ({ ...port, protocol: port.protocol ?? 'TCP' })) },
  };
}

function comparable({ metadata, spec, ...rest }: StoredObject): Json {
  const { labels, annotations, finalizers, ownerReferences } = metadata;
  const { clusterIP: _, clusterIPs: __, ...own } = (spec ?? {}) as Json;
  return { ...rest, spec: own, labels, annotations, finalizers, ownerReferences };
}

const sortedCauses = ({ details }: ApiError['status']) =>
  (details?.causes ?? []).map((cause) => JSON.stringify(Object.entries(cause).sort())).sort();

/** The API server orders the managers at random. */
const sortedLines = (message = '') =>
  message
    .split(/\n|: (?=conflict)/)
    .sort()
    .join('\n');

function conflictOf(apply: () => unknown) {
  try {
    apply();
  } catch (error) {
    if (!(error instanceof RefusedError)) throw error;
    strictEqual(error.status.reason, 'Conflict');
    return { message: sortedLines(error.status.message), causes: sortedCauses(error.status) };
  }
  throw new Error('no conflict');
}
