import { builtInKind, defineKind, type Kind } from '@echoperator/runtime';
import { Deployment, Role, Secret, Service } from '@echoperator/runtime/kinds';
import { describe, expect, test } from '@jest/globals';
import Type from 'typebox';
import { differencesOf, fieldSchema } from '../../../../packages/runtime/src/apply/difference.ts';
import { schemaOf } from '../../../../packages/runtime/src/apply/kind-schema.ts';
import type { Schema, Struct } from '../../../../packages/runtime/src/apply/schema.ts';
import fc from '../../../../testkit/seeded-fast-check.ts';
import { Widget } from '../../../../testkit/widgets.ts';

test('a key with a bracket cannot be mistaken for more of the path', () => {
  const keys = ['a].b', 'a[b', 'a%5Db', 'plain/key-1.x'];
  const desired = Object.fromEntries(keys.map((key) => [key, 1]));
  const paths = differencesOf(desired, {}, { type: 'schemaless' }).map(({ path }) => path);
  expect(paths).toEqual(['[a%5D.b]', '[a%5Bb]', '[a%255Db]', '[plain/key-1.x]']);
});

test('an integer that may have been rounded equals none', () => {
  const rounded: unknown = JSON.parse('9007199254740993');
  expect(differencesOf({ size: rounded }, { size: 2 ** 53 }, { type: 'schemaless' })).toMatchObject([
    { path: '[size]' },
  ]);
  expect(differencesOf({ size: 2 ** 53 - 1 }, { size: 2 ** 53 - 1 }, { type: 'schemaless' })).toEqual([]);
});

const Shop = defineKind({
  group: 'test.example',
  version: 'v1',
  kind: 'Shop',
  plural: 'shops',
  description: 'Sells.',
  spec: Type.Object({
    doors: Type.Array(
      Type.Object({ street: Type.String(), side: Type.String({ default: 'left' }), width: Type.Number() }),
      {
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['street', 'side'],
      },
    ),
    tags: Type.Array(Type.String(), { 'x-kubernetes-list-type': 'set' }),
    steps: Type.Array(Type.Object({ do: Type.String(), well: Type.Optional(Type.Boolean()) })),
    prices: Type.Record(Type.String(), Type.Number(), { 'x-kubernetes-map-type': 'atomic' }),
    limits: Type.Record(Type.String(), Type.Number()),
    open: Type.Boolean(),
    free: Type.Unsafe<object>({ type: 'object', 'x-kubernetes-preserve-unknown-fields': true }),
  }),
  status: Type.Object({}),
});

const difference = (kind: Kind, wanted: object, stored: object): string | undefined =>
  differencesOf(wanted, stored, schemaOf(kind))[0]?.path;
const specOf = (kind: Kind): Schema => fieldSchema(schemaOf(kind) as Struct, 'spec');
const ofPod = (wanted: object, stored: object): string | undefined =>
  difference(Deployment, { spec: { template: { spec: wanted } } }, { spec: { template: { spec: stored } } })?.slice(
    '.spec.template.spec'.length,
  );
const ofContainer = (wanted: object, stored: object): string | undefined =>
  ofPod({ containers: [{ name: 'a', ...wanted }] }, { containers: [{ name: 'a', ...stored }] })?.slice(
    '.containers[a]'.length,
  );
const ofService = (wanted: object, stored: object): string | undefined =>
  difference(Service, { spec: wanted }, { spec: stored });
const ofShop = (wanted: object, stored: object): string | undefined =>
  difference(Shop, { spec: wanted }, { spec: stored });

describe('a list with merge keys', () => {
  test('is compared item by item; items of others are ignored', () => {
    const sidecar = { name: 'sidecar', image: 'proxy:1' };
    const wanted = { containers: [{ name: 'a', image: 'x:1' }] };
    expect(ofPod(wanted, { containers: [{ name: 'a', image: 'x:1', tty: true }, sidecar] })).toBeUndefined();
    expect(ofPod(wanted, { containers: [sidecar, { name: 'a', image: 'x:1' }] })).toBeUndefined();
    expect(ofPod(wanted, { containers: [sidecar, { name: 'a', image: 'x:2' }] })).toBe('.containers[a].image');
    expect(ofPod(wanted, { containers: [sidecar] })).toBe('.containers[a]');
    expect(ofPod(wanted, {})).toBe('.containers');
  });

  test.each([
    ['env', 'name', {}],
    ['volumeMounts', 'mountPath', {}],
    ['ports', 'containerPort', { protocol: 'TCP' }],
  ])('%s is merged by %s', (list, key, defaults) => {
    const stored = [
      { [key]: 1, more: 1, ...defaults },
      { [key]: 2, more: 2, ...defaults },
    ];
    expect(ofContainer({ [list]: [{ [key]: 2, more: 2 }] }, { [list]: stored })).toBeUndefined();
    expect(ofContainer({ [list]: [{ [key]: 3 }] }, { [list]: stored })).toMatch(new RegExp(`^\\.${list}\\[3`));
  });

  test('differs if it stores a desired item twice', () => {
    const env = [{ name: 'A', value: '1' }];
    expect(ofContainer({ env }, { env: [...env, { name: 'A', value: '2' }] })).toBe('.env[A]');
    expect(ofContainer({ env }, { env: [...env, { name: 'B' }, { name: 'B' }] })).toBeUndefined();
  });

  test('uses the default of a missing key', () => {
    const stored = {
      ports: [
        { port: 53, protocol: 'UDP' },
        { port: 53, protocol: 'TCP', targetPort: 53 },
      ],
    };
    expect(ofService({ ports: [{ port: 53 }] }, stored)).toBeUndefined();
    expect(ofService({ ports: [{ port: 53, protocol: 'UDP', targetPort: 53 }] }, stored)).toBe(
      '.spec.ports[53/UDP].targetPort',
    );
  });

  test('differs in another order, because init containers run in order', () => {
    const [a, b, c] = ['a', 'b', 'c'].map((name) => ({ name }));
    expect(ofPod({ initContainers: [a, b] }, { initContainers: [a, c, b] })).toBeUndefined();
    expect(ofPod({ initContainers: [b, a] }, { initContainers: [a, b] })).toBe('.initContainers[a]');
  });

  test('of a custom kind has the keys of its definition', () => {
    const stored = [
      { street: 'Main', side: 'left', width: 2 },
      { street: 'Main', side: 'right', width: 3 },
    ];
    expect(ofShop({ doors: [{ street: 'Main', side: 'right', width: 3 }] }, { doors: stored })).toBeUndefined();
    expect(ofShop({ doors: [{ street: 'Main', width: 2 }] }, { doors: stored })).toBeUndefined();
    expect(ofShop({ doors: [{ street: 'Main', width: 3 }] }, { doors: stored })).toBe('.spec.doors[Main/left].width');
  });

  test('of owner references is merged by uid, of finalizers as a set', () => {
    const wanted = { metadata: { ownerReferences: [{ uid: '2' }], finalizers: ['b'] } };
    const stored = { metadata: { ownerReferences: [{ uid: '1' }, { uid: '2' }], finalizers: ['a', 'b'] } };
    for (const kind of [Deployment, Shop, Widget]) expect(difference(kind, wanted, stored)).toBeUndefined();
    expect(difference(Shop, stored, wanted)).toBe('.metadata.ownerReferences[1]');
  });
});

describe('an atomic field', () => {
  test('that is a list must have exactly the desired items, in order', () => {
    expect(ofContainer({ args: ['a', 'b'] }, { args: ['a', 'b'] })).toBeUndefined();
    expect(ofContainer({ args: ['a'] }, { args: ['a', 'b'] })).toBe('.args');
    expect(ofContainer({ args: ['b', 'a'] }, { args: ['a', 'b'] })).toBe('.args[0]');
    expect(ofShop({ steps: [{ do: 'x' }] }, { steps: [{ do: 'x' }, { do: 'y' }] })).toBe('.spec.steps');
  });

  test('that is a list reports additional fields of an item as surplus', () => {
    expect(differencesOf({ steps: [{ do: 'x' }] }, { steps: [{ do: 'x', well: true }] }, specOf(Shop))).toEqual([
      { path: '.steps[0].well', stored: true, isSurplus: true },
    ]);
    const fieldRef = { fieldPath: 'metadata.name' };
    expect(
      ofContainer(
        { env: [{ name: 'A', valueFrom: { fieldRef } }] },
        { env: [{ name: 'A', valueFrom: { fieldRef: { apiVersion: 'v1', ...fieldRef } } }] },
      ),
    ).toBe('.env[A].valueFrom.fieldRef.apiVersion');
    const rules = (rule: object): object => ({ rules: [{ verbs: ['get'], resources: ['pods'], ...rule }] });
    expect(difference(Role, rules({}), rules({ resourceNames: ['a'] }))).toBe('.rules[0].resourceNames');
  });

  test('that is an empty selector differs from one with labels', () => {
    const selector = (selector: object): object => ({ spec: { selector } });
    expect(difference(Deployment, selector({}), selector({ matchLabels: { a: '1' } }))).toBe(
      '.spec.selector.matchLabels',
    );
  });

  test('that is a map must have exactly the desired keys', () => {
    expect(ofService({ selector: { app: 'a' } }, { selector: { app: 'a' } })).toBeUndefined();
    expect(ofService({ selector: { app: 'a' } }, { selector: { app: 'a', tier: 'b' } })).toBe('.spec.selector[tier]');
    expect(ofShop({ prices: { tea: 1 } }, { prices: { tea: 1, rum: 2 } })).toBe('.spec.prices[rum]');
    expect(ofShop({ limits: { tea: 1 } }, { limits: { tea: 1, rum: 2 } })).toBeUndefined();
  });

  test('that is a selector must have exactly the desired labels', () => {
    const selector = (matchLabels: object): object => ({ spec: { selector: { matchLabels } } });
    expect(difference(Deployment, selector({ a: '1' }), selector({ a: '1', b: '2' }))).toBe(
      '.spec.selector.matchLabels[b]',
    );
  });

  test('does not include labels and annotations of an object', () => {
    expect(
      difference(Service, { metadata: { labels: { a: '1' } } }, { metadata: { labels: { a: '1', b: '2' } } }),
    ).toBe(undefined);
  });

  test('that is a rule of a Role is compared as a whole', () => {
    const rules = (...verbs: string[]): object => ({ rules: [{ verbs, resources: ['pods'] }] });
    expect(difference(Role, rules('get'), rules('get'))).toBeUndefined();
    expect(difference(Role, rules('get'), rules('get', 'list'))).toBe('.rules[0].verbs');
  });
});

describe('a quantity', () => {
  const amount = (wanted: unknown, stored: unknown): string | undefined =>
    ofContainer({ resources: { limits: { cpu: wanted } } }, { resources: { limits: { cpu: stored } } });

  test.each([
    ['1000m', '1'],
    ['1', '1000m'],
    [1, '1'],
    [0.5, '500m'],
    ['1024Mi', '1Gi'],
    ['1.5Gi', '1536Mi'],
    ['1e3', '1k'],
    ['1E3', '1000'],
    ['1E', '1000P'],
    ['.5', '500m'],
    ['+1.', '1'],
    ['-1000m', '-1'],
    ['0', '0Gi'],
    ['0.1n', '1n'],
    ['12345678901234567890', '12345678901234567890'],
  ])('%s equals %s', (wanted, stored) => expect(amount(wanted, stored)).toBeUndefined());

  test.each([
    ['1', '2'],
    ['1Gi', '1G'],
    ['1m', '1M'],
    ['1n', '2n'],
    ['1', '-1'],
    ['12345678901234567890', '12345678901234567891'],
    ['much', 'more'],
    ['', '0'],
    ['1', undefined],
    ['1', { m: 1 }],
  ])('%s does not equal %s', (wanted, stored) => expect(amount(wanted, stored)).toBe('.resources.limits[cpu]'));

  test('is compared by value only in fields of that type', () => {
    expect(ofContainer({ image: '1000m' }, { image: '1' })).toBe('.image');
    expect(ofShop({ limits: { cpu: '1000m' } }, { limits: { cpu: '1' } })).toBe('.spec.limits[cpu]');
  });
});

test('an int-or-string distinguishes 80 from "80", as the API server does', () => {
  const port = (targetPort: unknown): object => ({ ports: [{ port: 80, targetPort }] });
  expect(ofService(port(80), port(80))).toBeUndefined();
  expect(ofService(port('http'), port('http'))).toBeUndefined();
  expect(ofService(port('80'), port(80))).toBe('.spec.ports[80/TCP].targetPort');
});

describe('a value that the server omits', () => {
  test.each([
    ['an empty value of an environment variable', { env: [{ name: 'A', value: '' }] }, { env: [{ name: 'A' }] }],
    ['a false', { stdin: false }, {}],
    ['an empty list', { args: [], env: [] }, {}],
    ['an empty map', { resources: { limits: {} } }, { resources: {} }],
    ['null', { command: null }, {}],
    ['undefined', { command: undefined, securityContext: { runAsUser: undefined } }, { securityContext: {} }],
  ])('does not differ: %s', (_, wanted, stored) => expect(ofContainer(wanted, stored)).toBeUndefined());

  test.each([
    ['a false that is kept', { securityContext: { privileged: false } }, { securityContext: {} }],
    ['a 0 that is kept', { securityContext: { runAsUser: 0 } }, { securityContext: {} }],
    ['a false where there is a true', { stdin: false }, { stdin: true }],
    ['an empty object that is kept', { securityContext: {} }, {}],
    ['a value', { stdin: true }, {}],
    ['an empty list where there is none', { args: [] }, { args: ['a'] }],
  ])('differs: %s', (_, wanted, stored) => expect(ofContainer(wanted, stored)).toBeDefined());

  test('does not exist in custom kinds', () => {
    expect(ofShop({ open: false }, {})).toBe('.spec.open');
    expect(ofShop({ tags: [] }, {})).toBe('.spec.tags');
    expect(ofShop({ limits: {} }, {})).toBe('.spec.limits');
  });
});

test('a field of a custom kind that keeps unknown fields is merged by key', () => {
  expect(ofShop({ free: { a: { b: 1 } } }, { free: { a: { b: 1, theirs: 2 }, theirs: 3 } })).toBeUndefined();
  expect(ofShop({ free: { a: [{ b: 1 }] } }, { free: { a: [{ b: 1, theirs: 2 }] } })).toBe('.spec.free[a][0][theirs]');
});

describe('a kind without a schema', () => {
  test('has atomic lists and objects, because any may be atomic', () => {
    expect(differencesOf({ spec: { a: 1 } }, { spec: { a: 1, more: 1 } }, schemaOf(Widget))).toEqual([
      { path: '.spec[more]', stored: 1, isSurplus: true },
    ]);
    expect(difference(Widget, { spec: { list: [{ a: 1 }] } }, { spec: { list: [{ a: 1, b: 2 }] } })).toBe(
      '.spec[list][0][b]',
    );
    expect(difference(Widget, { spec: { list: [1] } }, { spec: { list: [1, 2] } })).toBe('.spec[list]');
    expect(difference(Widget, { spec: { empty: {} } }, { spec: {} })).toBe('.spec[empty]');
  });

  test('does not use the schema of a kind with the same name in another group', () => {
    const other = builtInKind<object>({ group: 'apps.example.com', version: 'v1', kind: 'Deployment', plural: 'd' });
    expect(difference(other, { spec: { paused: false } }, { spec: {} })).toBe('.spec[paused]');
    expect(difference(Secret, { type: '' }, {})).toBeUndefined();
  });
});

test('finds all differences, each with the stored value', () => {
  const wanted = { spec: { replicas: 2, paused: true, selector: { matchLabels: { a: '1' } } } };
  const stored = { spec: { replicas: 1, selector: { matchLabels: { a: '2', b: '3' } } } };
  expect(differencesOf(wanted, stored, schemaOf(Deployment))).toEqual([
    { path: '.spec.replicas', stored: 1, isSurplus: false },
    { path: '.spec.paused', stored: undefined, isSurplus: false },
    { path: '.spec.selector.matchLabels[a]', stored: '2', isSurplus: false },
    { path: '.spec.selector.matchLabels[b]', stored: '3', isSurplus: true },
  ]);
});

describe('for any configuration', () => {
  const scalar = fc.oneof(fc.string(), fc.integer(), fc.boolean());
  const json = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      scalar,
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(fc.oneof(fc.constantFrom('toString', 'constructor', '__proto__'), fc.string()), tie('value'), {
        maxKeys: 4,
      }),
    ),
  })).value;
  const name = fc.string({ minLength: 1, maxLength: 3 });
  const container = fc.record(
    {
      name,
      image: fc.string({ minLength: 1 }),
      args: fc.array(fc.string({ minLength: 1 }), { minLength: 1 }),
      env: fc.uniqueArray(fc.record({ name, value: fc.string({ minLength: 1 }) }), {
        selector: (item) => item.name,
        minLength: 1,
      }),
      resources: fc.record({ limits: fc.dictionary(name, fc.integer({ min: 1 }).map(String), { minKeys: 1 }) }),
      securityContext: fc.record({ runAsUser: fc.nat(), privileged: fc.boolean() }),
    },
    { requiredKeys: ['name'] },
  );
  const deployment = fc.record({
    metadata: fc.record({ name, labels: fc.dictionary(name, fc.string({ minLength: 1 })) }),
    spec: fc.record({
      replicas: fc.nat(),
      template: fc.record({
        spec: fc.record({
          containers: fc.uniqueArray(container, { selector: (item) => item.name, minLength: 1, maxLength: 4 }),
        }),
      }),
    }),
  });

  /** With more of everything that others may add: fields of structs, keys of maps, items of merged lists. */
  const superset = (value: unknown, at: string): unknown => {
    if (Array.isArray(value)) {
      const items = value.map((item) => superset(item, `${at}[]`));
      return /(containers|env)$/.test(at) ? [{ name: 'by another' }, ...items, { name: 'by a third' }] : items;
    }
    if (typeof value !== 'object' || value === null) return value;
    const own = Object.entries(value).map(([key, part]) => [key, superset(part, `${at}.${key}`)]);
    return Object.fromEntries([...own, ['added by the server', { with: ['a default'] }]]);
  };

  /** The paths of all that is neither an object nor a list. */
  const leaves = (value: unknown, path: readonly string[] = []): (readonly string[])[] =>
    typeof value === 'object' && value !== null
      ? Object.entries(value).flatMap(([key, part]) => leaves(part, [...path, key]))
      : [path];

  const changedAt = (value: unknown, [key, ...rest]: readonly string[]): unknown => {
    if (key === undefined) return typeof value === 'string' ? `${value}0` : typeof value === 'boolean' ? !value : 1e9;
    const copy = Array.isArray(value) ? [...value] : { ...(value as object) };
    (copy as Record<string, unknown>)[key] = changedAt((value as Record<string, unknown>)[key], rest);
    return copy;
  };

  test('it does not differ from itself', () => {
    const ofAny = (value: unknown): string | undefined =>
      differencesOf(value, structuredClone(value), { type: 'schemaless' })[0]?.path;
    fc.assert(fc.property(json, (value) => ofAny(value) === undefined));
    fc.assert(fc.property(deployment, (value) => difference(Deployment, value, structuredClone(value)) === undefined));
  });

  test('it does not differ from a superset', () => {
    fc.assert(
      fc.property(deployment, (wanted) => {
        expect(difference(Deployment, wanted, superset(wanted, '') as object)).toBeUndefined();
      }),
    );
  });

  test('a changed leaf differs, also in a superset', () => {
    fc.assert(
      fc.property(deployment, fc.nat(), (wanted, pick) => {
        const paths = leaves(wanted);
        const path = paths[pick % paths.length] ?? [];
        const stored = superset(changedAt(wanted, path), '') as object;
        expect(difference(Deployment, wanted, stored)).toBeDefined();
      }),
    );
  });

  test('a missing leaf differs', () => {
    fc.assert(
      fc.property(json, json, (wanted, stored) => {
        if (differencesOf(wanted, stored, { type: 'schemaless' }).length > 0) return;
        // Nothing differs: then every leaf that is wanted is there.
        for (const path of leaves(wanted)) {
          const at = (value: unknown): unknown =>
            path.reduce<unknown>((part, key) => (part as Record<string, unknown>)[key], value);
          expect(at(stored)).toEqual(at(wanted));
        }
      }),
    );
  });

  test('a quantity equals itself in any notation', () => {
    const quantity = (limits: object): object => ({ containers: [{ name: 'a', resources: { limits } }] });
    fc.assert(
      fc.property(fc.nat({ max: 1e9 }), (amount) => {
        for (const form of [`${amount}000m`, `${amount}e0`, `${amount}.0`, `0${amount}`, `${amount * 1000}m`, amount]) {
          expect(ofPod(quantity({ cpu: form }), quantity({ cpu: String(amount) }))).toBeUndefined();
        }
        expect(ofPod(quantity({ cpu: `${amount}.001` }), quantity({ cpu: String(amount) }))).toBeDefined();
      }),
    );
  });
});

test('an addition of the server to a claimRef is no surplus, because the field overrides the merge strategy of its type', () => {
  const volume: Schema = { type: 'ref', name: 'core.v1.PersistentVolume' };
  const claimRef = { name: 'data', namespace: 'default' };
  const stored = { spec: { claimRef: { ...claimRef, uid: 'u', resourceVersion: '7' } } };
  expect(differencesOf({ spec: { claimRef } }, stored, volume)).toEqual([]);
});

test('long lists are compared in linear time, also if all of their items differ or one repeats', () => {
  const count = 20_000;
  const deploymentWith = (env: readonly object[]): object => ({
    spec: { template: { spec: { containers: [{ name: 'a', env }] } } },
  });
  const env = Array.from({ length: count }, (_, n) => ({ name: `E${n}`, value: 'x' }));
  const desired = deploymentWith(env);
  const pathsOf = (stored: readonly object[]): string[] =>
    differencesOf(desired, deploymentWith(stored), schemaOf(Deployment)).map(({ path }) => path);
  const startedAtMs = performance.now();
  expect(pathsOf([{ name: 'other' }, ...env])).toEqual([]);
  expect(pathsOf(env.map(({ name }) => ({ name, value: 'y' })))).toHaveLength(count);
  const last = env[count - 1] ?? {};
  expect(pathsOf([...env, last])).toEqual([`.spec.template.spec.containers[a].env[E${count - 1}]`]);
  expect(performance.now() - startedAtMs).toBeLessThan(5000);
});
