import { defineKind, type ObjectOf } from '@echoperator/runtime';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import Type from 'typebox';
import { convert, lostFieldsAnnotation, withVersion } from '../../../../packages/runtime/src/conversion/versions.ts';

const names = { group: 'example.com', kind: 'Greeting', plural: 'greetings', description: 'Greets.' };
const text = Type.String({ description: 'A text.' });

const V1 = defineKind({
  ...names,
  version: 'v1',
  spec: Type.Object({
    who: text,
    greeting: Type.Optional(text),
    replicas: Type.Integer({ description: 'How many.' }),
    friends: Type.Optional(
      Type.Array(Type.Object({ first: text, nick: Type.Optional(text) }), { description: 'Friends.' }),
    ),
    labels: Type.Optional(Type.Record(Type.String(), text, { description: 'Labels.' })),
  }),
  status: Type.Object({ phase: text }),
});

const Alpha = defineKind({
  ...names,
  version: 'v1alpha1',
  spec: Type.Object({
    name: text,
    mood: Type.Optional(text),
    friends: Type.Optional(Type.Array(text, { description: 'Friends.' })),
    labels: Type.Optional(Type.Record(Type.String(), text, { description: 'Labels.' })),
  }),
  status: Type.Object({ state: text }),
});

const Beta = defineKind({
  ...names,
  version: 'v1beta1',
  spec: Type.Object({ who: text, greeting: Type.Optional(text), volume: Type.Optional(Type.Integer()) }),
  status: Type.Object({}),
});

const conversion = {
  toStored: ({ spec: { name, friends, labels }, status }: ObjectOf<typeof Alpha>) => ({
    spec: {
      who: name,
      replicas: 1,
      ...(friends && { friends: friends.map((first) => ({ first })) }),
      ...(labels && { labels }),
    },
    ...(status && { status: { phase: status.state ?? '' } }),
  }),
  fromStored: ({ spec: { who, friends, labels }, status }: ObjectOf<typeof V1>) => ({
    spec: { name: who, ...(friends && { friends: friends.map(({ first }) => first) }), ...(labels && { labels }) },
    ...(status && { status: { state: status.phase ?? '' } }),
  }),
};

const Greeting = withVersion(withVersion(V1, Alpha, { deprecated: 'use example.com/v1', conversion }), Beta, {
  conversion: {
    toStored: ({ spec: { who, greeting } }) => ({ spec: { who, replicas: 1, ...(greeting && { greeting }) } }),
    fromStored: ({ spec: { who, greeting } }) => ({ spec: { who, ...(greeting && { greeting }) } }),
  },
});

const metadata = {
  name: 'world',
  namespace: 'default',
  uid: 'u',
  resourceVersion: '1',
  creationTimestamp: '2026-01-01T00:00:00Z',
  generation: 1,
};

type Stored = ObjectOf<typeof V1>;
const stored = (spec: object, more: object = {}) =>
  ({ apiVersion: 'example.com/v1', kind: 'Greeting', metadata: { ...metadata, ...more }, spec }) as Stored;

const to = (version: string, object: object) => convert(Greeting, object as Stored, `example.com/${version}`);
const specOf = (object: object) => (object as { spec: Record<string, unknown> }).spec;
const edited = (object: object, edit: (spec: Record<string, unknown>) => unknown) => {
  const copy = structuredClone(object);
  edit(specOf(copy));
  return copy;
};

const full = stored({ who: 'a', greeting: 'Hi', replicas: 3, friends: [{ first: 'b', nick: 'B' }, { first: 'c' }] });

describe('a conversion', () => {
  test('has what the older version can hold, and everything again afterwards', () => {
    const alpha = to('v1alpha1', full);
    expect(specOf(alpha)).toEqual({ name: 'a', friends: ['b', 'c'] });
    expect(alpha.apiVersion).toBe('example.com/v1alpha1');
    expect(to('v1', alpha)).toEqual(full);
  });

  test('keeps what a client of the older version changes, and restores the rest', () => {
    const alpha = edited(to('v1alpha1', full), (spec) => {
      spec.name = 'z';
      spec.friends = ['c', 'b', 'd'].slice(0, 2);
    });
    expect(specOf(to('v1', alpha))).toEqual({
      who: 'z',
      greeting: 'Hi',
      replicas: 3,
      friends: [{ first: 'c' }, { first: 'b', nick: 'B' }],
    });
  });

  test('does not bring back what a client of the older version has removed', () => {
    const alpha = edited(to('v1alpha1', full), (spec) => void delete spec.friends);
    expect(specOf(to('v1', alpha))).toEqual({ who: 'a', greeting: 'Hi', replicas: 3 });
  });

  test('keeps in the stored object what only an older version holds', () => {
    const alpha = { ...to('v1alpha1', full), spec: { name: 'a', mood: 'good' }, metadata };
    const v1 = to('v1', alpha);
    expect(specOf(v1)).toEqual({ who: 'a', replicas: 1 });
    expect(to('v1alpha1', v1)).toEqual(alpha);
    expect(to('v1', to('v1beta1', v1))).toEqual(v1);
    expect(
      specOf(
        to(
          'v1alpha1',
          edited(v1, (spec) => Object.assign(spec, { who: 'b' })),
        ),
      ),
    ).toEqual({ name: 'b', mood: 'good' });
  });

  test('leaves other annotations and the rest of the metadata alone', () => {
    const annotations = { 'example.com/a': 'b' };
    const object = stored({ who: 'a', replicas: 1 }, { annotations, labels: { l: 'm' } });
    expect(to('v1alpha1', object).metadata).toEqual(object.metadata);
    const alpha = to('v1alpha1', stored({ who: 'a', replicas: 2 }, { annotations }));
    expect(Object.keys(alpha.metadata.annotations ?? {})).toEqual(['example.com/a', lostFieldsAnnotation]);
    expect(to('v1', alpha).metadata.annotations).toEqual(annotations);
  });

  test.each(['nonsense', '[]', '{"v1":5}', '{"v1":[{"path":[5]}]}', '{"v1":[{"path":["spec"],"items":[null]}]}'])(
    'ignores an annotation that somebody else wrote: %s',
    (annotation) => {
      const alpha = { ...to('v1alpha1', stored({ who: 'a', replicas: 1 })) };
      const forged = { ...alpha, metadata: { ...metadata, annotations: { [lostFieldsAnnotation]: annotation } } };
      expect(to('v1', forged)).toEqual(stored({ who: 'a', replicas: 1 }));
    },
  );

  test('a forged path cannot change a prototype', () => {
    const lost = [
      { path: ['__proto__', 'polluted'], is: 1 },
      { path: ['spec', '__proto__'], is: { polluted: 1 } },
    ];
    const annotations = { [lostFieldsAnnotation]: JSON.stringify({ v1: lost }) };
    const v1 = to('v1', {
      ...to('v1alpha1', stored({ who: 'a', replicas: 1 })),
      metadata: { ...metadata, annotations },
    });
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
    expect((specOf(v1) as { polluted?: unknown }).polluted).toBeUndefined();
  });

  test.each([
    [{ path: ['metadata'], is: { name: 'other' } }],
    [{ path: ['apiVersion'], is: 'example.com/v9' }],
    [{ path: ['kind'], is: 'Other' }],
    [{ path: ['spec'], was: { who: 'a', replicas: 1 }, is: null }],
    [{ path: ['spec', 'friends'], is: 5 }],
  ])('a forged field neither fails the conversion nor changes what the object is: %j', (lost) => {
    const object = stored({ who: 'a', replicas: 1 });
    const annotations = { [lostFieldsAnnotation]: JSON.stringify({ v1: [lost] }) };
    const forged = { ...to('v1alpha1', object), metadata: { ...metadata, annotations } };
    const { spec: _, ...identity } = object;
    expect(to('v1', forged)).toMatchObject(identity);
  });

  const forge = (alpha: object, lost: unknown): object => {
    const text = typeof lost === 'string' ? lost : JSON.stringify({ v1: lost });
    return { ...alpha, metadata: { ...metadata, annotations: { [lostFieldsAnnotation]: text } } };
  };
  const alphaOf = (spec: object) => ({ apiVersion: 'example.com/v1alpha1', kind: 'Greeting', metadata, spec });

  test('does not keep or restore a status: its annotation is written by those who may not write the status', () => {
    const object = {
      ...stored({ who: 'a', greeting: 'Hi', replicas: 1 }),
      status: { phase: 'P', observedGeneration: 3 },
    };
    const alpha = to('v1alpha1', object) as object as { metadata: { annotations: Record<string, string> } };
    expect(alpha.metadata.annotations[lostFieldsAnnotation]).not.toContain('status');
    const lost = [
      { path: ['status', 'phase'], was: 'P', is: 'Forged' },
      { path: ['status'], is: { phase: 'Forged' } },
    ];
    for (const each of lost) {
      const { status } = to('v1', forge(alpha, [each])) as Stored;
      expect(status).toEqual({ phase: 'P' });
    }
  });

  test.each([
    [{ path: ['spec', 'greeting'], is: 5 }],
    [{ path: ['spec'], was: { who: 'a', replicas: 1 }, is: 'text' }],
    [{ path: ['spec', 'replicas'], was: 1 }],
  ])('does not restore a field that its schema refuses: %j', (lost) => {
    const v1 = to('v1', forge(alphaOf({ name: 'a' }), [lost]));
    expect(specOf(v1)).toEqual({ who: 'a', replicas: 1 });
  });

  test('a forged annotation that is nested 100,000 levels deep is ignored', () => {
    const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`;
    for (const version of ['v1', 'v1beta1', 'v9']) {
      const annotation = `{"${version}":[{"path":["spec","greeting"],"is":${deep}}]}`;
      expect(specOf(to('v1', forge(alphaOf({ name: 'a' }), annotation)))).toEqual({ who: 'a', replicas: 1 });
    }
  });

  test.each([
    [
      'fields',
      Array.from({ length: 3500 }, () => ({ path: ['spec', 'friends'], items: [{ index: 0, was: 1, is: 1 }] })),
    ],
    [
      'items',
      [{ path: ['spec', 'friends'], items: Array.from({ length: 8000 }, () => ({ index: 0, was: {}, is: 1 })) }],
    ],
  ])('a forged annotation that repeats its %s takes no longer than another', (_, lost) => {
    const names = Array.from({ length: 50_000 }, (__, index) => `friend ${index}`);
    const startMs = performance.now();
    const v1 = to('v1', forge(alphaOf({ name: 'a', friends: names }), lost));
    expect(performance.now() - startMs).toBeLessThan(5000);
    expect(specOf(v1).friends).toHaveLength(50_000);
  });

  test('names the object whose function throws, and an unknown version', () => {
    expect(() => to('v1', { ...full, apiVersion: 'example.com/v1alpha1', spec: null })).toThrow(
      /greetings.example.com default\/world cannot be converted from v1alpha1 to v1: TypeError/,
    );
    expect(() => to('v9', full)).toThrow('has no version example.com/v9: it has example.com/v1, example.com/v1alpha1');
  });
});

const word = fc.constantFrom('a', 'b', 'c', '', '__proto__');
const optional = <T>(name: string, value: fc.Arbitrary<T>) =>
  fc.option(value, { nil: undefined }).map((each) => (each === undefined ? {} : { [name]: each }));
const merged = (...parts: readonly fc.Arbitrary<object>[]) =>
  fc.tuple(...parts).map((all): object => Object.assign({}, ...all));
const required = (name: string, value: fc.Arbitrary<unknown>) => value.map((each) => ({ [name]: each }));
const labels = optional('labels', fc.dictionary(word, word));

const specs = {
  v1: merged(
    required('who', word),
    required('replicas', fc.nat(3)),
    optional('greeting', word),
    optional('friends', fc.array(merged(required('first', word), optional('nick', word)), { maxLength: 4 })),
    labels,
  ),
  v1alpha1: merged(
    required('name', word),
    optional('mood', word),
    optional('friends', fc.array(word, { maxLength: 4 })),
    labels,
  ),
  v1beta1: merged(required('who', word), optional('greeting', word), optional('volume', fc.nat(9))),
} as const;
type Version = keyof typeof specs;
const versions = Object.keys(specs) as readonly Version[];

const objects = fc.constantFrom(...versions).chain((version) =>
  specs[version].map((spec) => ({
    apiVersion: `example.com/${version}`,
    kind: 'Greeting',
    metadata,
    // As it is parsed.
    spec: JSON.parse(JSON.stringify(spec)),
  })),
);
const versionOf = ({ apiVersion }: { readonly apiVersion?: string }) => apiVersion?.split('/')[1] ?? '';

test('from each version to the stored one and back nothing changes, also by way of another version', () => {
  fc.assert(
    fc.property(objects, fc.array(fc.constantFrom(...versions), { maxLength: 4 }), (object, way) => {
      // As through the API server: what is read in any version is a conversion of what is stored.
      const inStore = to('v1', object);
      expect(to(versionOf(object), inStore)).toEqual(object);
      for (const version of way) expect(to('v1', to(version, inStore))).toEqual(inStore);
    }),
  );
});

test('a client of one version changes only the fields that it sends, whatever other versions hold', () => {
  fc.assert(
    fc.property(
      objects,
      fc.array(fc.constantFrom(...versions), { minLength: 1, maxLength: 6 }),
      fc.nat(),
      (object, way, seed) => {
        let inStore = to('v1', object);
        for (const [index, version] of way.entries()) {
          const before = to(version, inStore);
          const name = version === 'v1alpha1' ? 'name' : 'who';
          const value = `w${seed + index}`;
          inStore = to(
            'v1',
            edited(before, (spec) => Object.assign(spec, { [name]: value })),
          );
          const after = to(version, inStore);
          expect(specOf(after)).toEqual({ ...specOf(before), [name]: value });
        }
        const read = to(versionOf(object), inStore);
        const { name: _, who: __, ...rest } = specOf(read);
        const { name: ___, who: ____, ...first } = specOf(object);
        expect(rest).toEqual(first);
      },
    ),
  );
});

describe('a version without functions', () => {
  const other = (spec: Parameters<typeof defineKind>[0]['spec']) =>
    defineKind({ ...names, version: 'v2', spec, status: Type.Object({ phase: text }) });

  test('must have an equal schema, except for descriptions', () => {
    const same = other(Type.With(V1.definition.spec, { description: 'Another description.' }));
    expect(withVersion(V1, same).versions).toHaveLength(1);
    const more = other(Type.Object({ ...V1.definition.spec.properties, extra: text }));
    expect(() => withVersion(V1, more)).toThrow(
      'greetings.example.com: the schemas of v1 and v2 differ at properties.spec.properties.extra: add the functions',
    );
  });

  test('must be of the same kind, and another version', () => {
    expect(() => withVersion(V1, { ...Alpha, plural: 'hellos' })).toThrow(
      'the plural of v1alpha1 is hellos, must be greetings',
    );
    expect(() => withVersion(V1, { ...Alpha, version: 'v1' }, { conversion })).toThrow('the version v1 is there twice');
  });
});
