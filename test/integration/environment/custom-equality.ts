import { isDeepStrictEqual } from 'node:util';
import type { Client, Kind } from '@echoperator/runtime';
import { CustomResourceDefinition } from '@echoperator/runtime/kinds';
import fc from 'fast-check';
import type { CustomResourceDefinitionManifest } from '../../../packages/testing/src/api-server.ts';
import { customStrategy } from '../../../packages/testing/src/simulation/custom-resources.ts';
import { type FieldError, invalid } from '../../../packages/testing/src/simulation/field-error.ts';
import {
  NotSimulatedError,
  RefusedError,
  type StoredObject,
  type Strategy,
} from '../../../packages/testing/src/simulation/strategy.ts';
import type { Schema } from '../../../packages/testing/src/spec-mutations.ts';
import { definitionOf } from '../../../src/commands/crds.ts';
import { kinds } from '../../../src/operator.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { syntheticKinds } from './custom-kinds.ts';
import { RawRequests } from './raw-requests.ts';

/** A kind with its definition and strategy. */
interface Subject {
  readonly kind: Kind;
  readonly definition: CustomResourceDefinitionManifest;
  readonly strategy: Strategy;
}

const subjects: readonly Subject[] = [
  ...kinds.map((kind) => ({ kind, definition: definitionOf(kind, 'dev') })),
  ...syntheticKinds,
].map(({ kind, definition }) => ({ kind, definition, strategy: customStrategy(kind, definition) }));

/** The definition without anything that refuses or changes an object, to store what the real one refuses. */
function withoutValidation({ definition }: Subject): CustomResourceDefinitionManifest {
  const anything = { 'x-kubernetes-preserve-unknown-fields': true };
  const openAPIV3Schema = { type: 'object', properties: { spec: anything, status: anything } };
  const versions = definition.spec.versions.map((version) => {
    const { subresources: _, additionalPrinterColumns: __, ...rest } = version;
    return { ...rest, schema: { openAPIV3Schema } };
  });
  return { ...definition, spec: { ...definition.spec, versions } } as CustomResourceDefinitionManifest;
}

const schemaOf = ({ definition }: Subject): Schema => definition.spec.versions[0]?.schema?.openAPIV3Schema as Schema;

const oddities = fc.constantFrom<unknown>(
  ...[
    null,
    '',
    'x',
    'two words',
    'bad',
    'z',
    'missing',
    '\u0007"\\<&>\u2028\u00a0\u{e000}\u{1f43e}é',
    7,
    -1,
    0,
    1.5,
    2.5,
    3,
  ],
  ...[65, 1e-7, 2 ** 31, true, false, [], {}, [1, 'a', null], [null], { unknown: 1 }, { b: [1], a: 0.5 }, { a: null }],
  ...[
    [{}, {}],
    [['x'], ['x']],
    'x'.repeat(30),
    '\u{1f43e}'.repeat(5),
    '2021-02-29T00:00:00Z',
    '2020-02-29t23:59:59.5z',
  ],
);

/** Go and JavaScript know different versions of Unicode. */
const oldCharacter = fc.integer({ min: 0, max: 0x2ff }).map((code) => String.fromCodePoint(code));

const odd = fc.oneof(
  { weight: 4, arbitrary: oddities },
  { weight: 1, arbitrary: fc.string({ unit: oldCharacter, maxLength: 6 }) },
);

/** Values that mostly fit the schema. `oddity`: how many of a thousand parts do not. */
function valuesOf(schema: Schema, oddity: number): fc.Arbitrary<unknown> {
  return fc.oneof(
    { weight: 1000 - oddity, arbitrary: fittingValues(schema, oddity) },
    { weight: oddity, arbitrary: odd },
  );
}

function fittingValues(schema: Schema, oddity: number): fc.Arbitrary<unknown> {
  const { type, minimum = -10, maximum = 100_000 } = schema;
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  switch (type) {
    case 'object':
      return objectsOf(schema, oddity);
    case 'array':
      return fc.array(valuesOf(schema.items ?? {}, oddity), { maxLength: 3 });
    case 'string':
      return textsOf(schema);
    case 'boolean':
      return fc.boolean();
    case 'integer':
      return fc.oneof(fc.integer({ min: minimum, max: Math.min(maximum, 100_000) }), fc.constantFrom(minimum, maximum));
    case 'number':
      return fc.oneof(fc.integer({ min: 0, max: 3 }), fc.constantFrom(0.5, 1.25, 2.5, minimum, maximum));
    default:
      if (schema['x-kubernetes-int-or-string'])
        return fc.oneof(
          fc.integer({ min: 1, max: 9 }),
          fc.constantFrom('1Gi', '2.5', '1500m', '3', '1e3', '10Ei', '0'),
        );
      return fc.constantFrom<unknown>({ a: [1] }, 'text', { containers: [{ name: 'c' }] });
  }
}

function objectsOf(schema: Schema, oddity: number): fc.Arbitrary<unknown> {
  const { properties = {}, additionalProperties, required = [] } = schema;
  const strange = fc.oneof(
    { weight: 1000 - oddity, arbitrary: fc.constant({}) },
    { weight: oddity, arbitrary: fc.constant({ strange: { a: null } }) },
  );
  const named = Object.entries(properties).map(([name, each]) => {
    const share = required.includes(name) ? 1000 - oddity : 300;
    const present = valuesOf(each, oddity).map((value) => ({ [name]: value }));
    return fc.oneof({ weight: share, arbitrary: present }, { weight: 1000 - share, arbitrary: fc.constant({}) });
  });
  const keys = fc.constantFrom('a', 'b', 'app', 'long key', 'job-name', 'q', '10', '9', 'x.y/z');
  const others = additionalProperties
    ? [fc.dictionary(keys, valuesOf(additionalProperties, oddity), { maxKeys: 3 })]
    : [];
  return fc.tuple(...named, ...others, strange).map((parts) => Object.assign({}, ...parts));
}

function textsOf({ format, pattern, minLength = 0, maxLength = 10 }: Schema): fc.Arbitrary<string> {
  if (format === 'date-time') return fc.constantFrom('2020-01-31T00:00:00Z', '2021-02-28T23:30:00.5+14:00');
  if (pattern !== undefined) {
    const matching = fc.stringMatching(new RegExp(pattern.replace('\\pL', '[a-zä]'), 'u'));
    return matching.filter(({ length }) => length >= minLength && length <= maxLength);
  }
  const words = ['a', 'x', 'bc', 'abc', 'word', 'kube-system', 'ä€🐾'];
  const fitting = words.filter(({ length }) => length >= minLength && length <= maxLength);
  return fc.constantFrom('a'.repeat(Math.max(minLength, 1)), ...fitting, 'x'.repeat(Math.min(maxLength, 300)));
}

/** Specs and, of one half, statuses. */
const contentsOf = (subject: Subject, oddity: number): fc.Arbitrary<Contents> => {
  const { spec = {}, status = {} } = schemaOf(subject).properties ?? {};
  const absent = fc.constant(undefined);
  return fc.record({
    spec: fc.oneof({ weight: 50, arbitrary: valuesOf(spec, oddity) }, { weight: 1, arbitrary: absent }),
    status: fc.oneof(valuesOf(status, oddity), absent),
  });
};

interface Contents {
  readonly spec: unknown;
  readonly status: unknown;
}

/** Contents after a change of a few members, which take their values from `to`. */
function changed(from: Contents, to: Contents, choices: readonly number[]): Contents {
  let index = 0;
  const next = (): number => choices[index++ % choices.length] ?? 0;
  return { spec: mixed(from.spec, to.spec, next), status: mixed(from.status, to.status, next) };
}

const choicesOf = fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 97, maxLength: 97, size: 'max' });

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Takes some members of `to` into `from`. */
function mixed(from: unknown, to: unknown, next: () => number): unknown {
  const choice = next();
  if (choice < 4) return from;
  if (Array.isArray(from) && Array.isArray(to)) {
    if (choice === 4) return [...from].reverse();
    if (choice === 5) return [...from, ...to];
    return from.map((each, index) => (index < to.length ? mixed(each, to[index], next) : each));
  }
  if (!isRecord(from) || !isRecord(to)) return choice === 9 ? to : from;
  const names = new Set([...Object.keys(from), ...Object.keys(to)]);
  const entries = [...names].flatMap((name): [string, unknown][] => {
    if (!Object.hasOwn(to, name)) return next() === 9 ? [] : [[name, from[name]]];
    if (!Object.hasOwn(from, name)) return next() > 6 ? [[name, to[name]]] : [];
    return [[name, mixed(from[name], to[name], next)]];
  });
  return Object.fromEntries(entries);
}

/** What became of a write: the object without what the server makes, or the refusal. */
type Outcome =
  | { readonly stored: unknown }
  | { readonly code: number; readonly reason: string; readonly causes: readonly string[] };

/** What the simulation does. @throws NotSimulatedError */
function simulated(run: () => StoredObject): Outcome {
  try {
    return storedOf(run());
  } catch (error) {
    if (!(error instanceof RefusedError)) throw error;
    const { code, reason = '', details } = error.status;
    return { code, reason, causes: textsOfCauses(details?.causes as readonly FieldError[]) };
  }
}

function isRefused(run: () => unknown): boolean {
  try {
    run();
    return false;
  } catch (error) {
    return error instanceof RefusedError;
  }
}

interface Response {
  readonly code: number;
  readonly body: unknown;
}

interface ServerStatus {
  readonly reason: string;
  readonly message: string;
  readonly details: { readonly name: string; readonly causes?: readonly FieldError[] };
}

/**
 * What the server did. The order of its causes is random, so its message is that of its causes, not that of the
 * simulation's.
 */
function ofServer(kind: Kind, response: Response): Outcome {
  if (response.code < 300) return storedOf(response.body as StoredObject);
  const { reason, message, details } = response.body as ServerStatus;
  const causes = details.causes ?? [];
  const expected = invalid(kind, details.name, causes).status.message;
  if (message !== expected) throw new Error(`the message of ${kind.kind} is ${message}, not ${expected}`);
  return { code: response.code, reason, causes: textsOfCauses(causes) };
}

const textsOfCauses = (causes: readonly FieldError[]): readonly string[] =>
  causes.map(({ reason, field, message }) => `${reason} ${field}: ${message}`).sort();

function storedOf({ metadata, ...rest }: StoredObject): Outcome {
  const { generation, labels } = metadata;
  return { stored: JSON.parse(JSON.stringify({ ...rest, metadata: { generation, labels } })) };
}

/** How many writes were compared, and what the simulation refused to simulate. */
export interface Comparison {
  readonly outcomes: { stored: number; refused: number; ratcheted: number };
  readonly notSimulated: string[];
  readonly causes: string[];
}

export interface ComparisonOptions {
  readonly seed: number;
  /** Of each kind; three times as many of the test's own kinds, which have more keywords. */
  readonly objects: number;
  /** Changes of each object, and of its status. */
  readonly changes: number;
  /** How many of a thousand values do not fit the schema. Default: 30. */
  readonly oddity?: number;
  /** Changes only these kinds. Default: all. */
  readonly subjects?: readonly Subject[];
}

/**
 * Creates and changes random objects on the API server (dry runs) and in the simulation, and expects the same outcome.
 * The objects that are changed were stored under definitions without validation, so they may be invalid.
 *
 * @throws Error that shows the first difference, with both outcomes
 */
export async function compareAtRandom(
  server: ComparedServer,
  namespace: string,
  options: ComparisonOptions,
): Promise<Comparison> {
  const { seed, objects, changes, subjects: chosen = subjects } = options;
  const comparison: Comparison = { outcomes: { stored: 0, refused: 0, ratcheted: 0 }, notSimulated: [], causes: [] };
  const sample = <T>(arbitrary: fc.Arbitrary<T>, numRuns: number, offset: number): readonly T[] =>
    fc.sample(arbitrary, { numRuns, seed: seed + offset });
  const collection = ({ kind }: Subject): string =>
    `/apis/${kind.group}/${kind.version}/namespaces/${namespace}/${kind.plural}`;

  const compare = async (
    subject: Subject,
    what: string,
    request: ComparedRequest,
    run: () => StoredObject,
  ): Promise<void> => {
    const real = ofServer(subject.kind, await server.send(request.method, `${request.path}?dryRun=All`, request.body));
    let own: Outcome;
    try {
      own = simulated(run);
    } catch (error) {
      if (!(error instanceof NotSimulatedError)) throw error;
      comparison.notSimulated.push(error.message);
      return;
    }
    comparison.outcomes['stored' in real ? 'stored' : 'refused'] += 1;
    if ('stored' in real && request.method === 'PUT' && isRefused(() => subject.strategy.create(run())))
      comparison.outcomes.ratcheted += 1;
    if ('causes' in real) comparison.causes.push(...real.causes);
    if (!isDeepStrictEqual(own, real))
      throw new Error(
        `${subject.kind.kind}: ${what}\n${JSON.stringify({ real, own, body: request.body }, undefined, 1)}`,
      );
  };

  const { oddity = 30 } = options;
  const countFor = ({ kind }: Subject): number => objects * (syntheticKinds.some((each) => each.kind === kind) ? 3 : 1);
  await Promise.all(chosen.map((subject) => server.define(withoutValidation(subject))));
  const stored = new Map<Subject, { readonly contents: Contents; readonly name: string }[]>();
  for (const [position, subject] of chosen.entries()) {
    const all = sample(contentsOf(subject, oddity), countFor(subject), 100 + position).map((contents, index) => ({
      contents,
      name: `stored-${index}`,
    }));
    stored.set(subject, all);
    for (const { contents, name } of all) {
      const { code, body } = await server.send(
        'POST',
        collection(subject),
        objectOf(subject, namespace, name, contents),
      );
      if (code !== 201) throw new Error(`cannot store ${name}: ${JSON.stringify(body)}`);
    }
  }
  await Promise.all(chosen.map((subject) => server.define(subject.definition)));

  for (const [position, subject] of chosen.entries()) {
    const { strategy } = subject;
    const count = countFor(subject);
    const all = sample(contentsOf(subject, oddity), count * (changes + 2), position);
    for (const [index, contents] of all.slice(0, count * 2).entries()) {
      const body = objectOf(subject, namespace, index % 10 === 9 ? 'new-bad' : 'new', contents);
      const request = { method: 'POST', path: collection(subject), body } as const;
      await compare(subject, `create ${index}`, request, () => strategy.create(strategy.decode(body)));
    }
    const choices = sample(choicesOf, count * changes, position);
    const targets = all.slice(count * 2);
    for (const [index, { contents, name }] of (stored.get(subject) ?? []).entries()) {
      const path = `${collection(subject)}/${name}`;
      const { body: old } = (await server.send('GET', path)) as { body: StoredObject };
      const kept = { ...objectOf(subject, namespace, name, contents), metadata: old.metadata };
      const read = simulated(() => strategy.decode(kept));
      if (!isDeepStrictEqual(read, storedOf(old))) throw new Error(`read ${name}: ${JSON.stringify({ read, old })}`);
      for (let turn = 0; turn < changes; turn += 1) {
        const at = index * changes + turn;
        const to = targets[at];
        if (to === undefined) throw new Error(`no change ${at}`);
        const change = changed({ spec: old.spec, status: old.status }, to, choices[at] ?? []);
        const body = { ...objectOf(subject, namespace, name, change), metadata: old.metadata };
        await compare(subject, `change ${turn} of ${name}`, { method: 'PUT', path, body }, () =>
          strategy.update(strategy.decode(body), old, undefined),
        );
        if (!strategy.hasStatus) continue;
        const request = { method: 'PUT', path: `${path}/status`, body } as const;
        await compare(subject, `change ${turn} of the status of ${name}`, request, () =>
          strategy.update(strategy.decode(body), old, 'status'),
        );
      }
    }
  }
  return comparison;
}

const objectOf = ({ kind }: Subject, namespace: string, name: string, contents: Contents): StoredObject =>
  JSON.parse(
    JSON.stringify({
      apiVersion: `${kind.group}/${kind.version}`,
      kind: kind.kind,
      metadata: { namespace, name },
      ...contents,
    }),
  );

interface ComparedRequest {
  readonly method: 'POST' | 'PUT';
  readonly path: string;
  readonly body: StoredObject;
}

export interface ComparedServer {
  send(method: 'GET' | 'POST' | 'PUT', path: string, body?: object): Promise<Response>;
  /** Resolves when the server uses the definition. */
  define(definition: CustomResourceDefinitionManifest): Promise<void>;
}

/** Connects to a server of the caller's own. It must have no object of these kinds. */
export async function comparedServer(kubeconfig: string, client: Client): Promise<ComparedServer & Disposable> {
  const raw = await RawRequests.connect(kubeconfig);
  const send = async (method: 'GET' | 'POST' | 'PUT', path: string, body?: object): Promise<Response> => {
    const json = 'application/json';
    const { code, text } = await raw.send(method, path, body && JSON.stringify(body), json, json);
    return { code, body: JSON.parse(text) };
  };
  const define = async (definition: CustomResourceDefinitionManifest): Promise<void> => {
    await client.apply(CustomResourceDefinition, definition as CustomResourceDefinition, { force: true });
    const { group, names, versions } = definition.spec;
    const [version] = versions;
    const isStrict = (version?.schema?.openAPIV3Schema?.required ?? []).length > 0;
    const object = { apiVersion: `${group}/${version?.name}`, kind: names.kind, metadata: { name: 'probe' } };
    const path = `/apis/${group}/${version?.name}/namespaces/default/${names.plural}?dryRun=All`;
    await eventually(`${names.plural} are served by the definition`, async () => {
      const { code } = await raw.send('POST', path, JSON.stringify(object));
      return code === (isStrict ? 422 : 201);
    });
  };
  return { send, define, [Symbol.dispose]: () => raw[Symbol.dispose]() };
}
