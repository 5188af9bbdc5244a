import {
  type Condition,
  customResourceDefinition,
  defineKind,
  type Manifest,
  type ObjectOf,
} from '@echoperator/runtime';
import type { Client } from '@echoperator/runtime/client';
import { type CustomObject, missingField } from '@echoperator/runtime/controller';
import { describe, expect, test } from '@jest/globals';
import Type from 'typebox';
import { type Context, child } from '../../../../packages/runtime/src/controller/context.ts';
import { specProblem } from '../../../../packages/runtime/src/kind/define-kind.ts';

const Pet = defineKind({
  group: 'test.example',
  version: 'v1',
  kind: 'Pet',
  plural: 'pets',
  shortNames: ['pt'],
  description: 'Pet is an animal.',
  spec: Type.Object(
    { name: Type.String(), age: Type.Optional(Type.Integer()), tags: Type.Array(Type.String()) },
    { description: 'The animal.' },
  ),
  status: Type.Object(
    { id: Type.Optional(Type.String({ description: 'In the store.' })) },
    { description: 'How it is.', 'x-kubernetes-validations': [{ rule: 'has(self.id)' }] },
  ),
  printerColumns: [{ name: 'Name', type: 'string', jsonPath: '.spec.name' }],
});
type Pet = ObjectOf<typeof Pet>;
type Custom = CustomObject<object, object>;

const schemaOf = (kind: Parameters<typeof customResourceDefinition>[0]) =>
  customResourceDefinition(kind).spec?.versions[0]?.schema?.openAPIV3Schema?.properties;

describe('the status', () => {
  test('has its own fields and those of every status', () => {
    const status = schemaOf(Pet)?.status;
    expect(status?.properties).toMatchObject({
      id: { type: 'string', description: 'In the store.' },
      observedGeneration: { type: 'integer', format: 'int64', minimum: 0 },
      conditions: {
        type: 'array',
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['type'],
        items: {
          type: 'object',
          required: ['type', 'status', 'reason', 'message', 'lastTransitionTime'],
          properties: { status: { type: 'string', enum: ['True', 'False', 'Unknown'] } },
        },
      },
    });
    expect(Object.keys(status?.properties ?? {})).toEqual(['id', 'observedGeneration', 'conditions']);
  });

  test('requires no field, because not every outcome sets it', () => {
    const Strict = defineKind({
      ...Pet.definition,
      status: Type.Object({ id: Type.String(), store: Type.Object({ name: Type.String() }) }),
    });
    expect(schemaOf(Pet)?.status).not.toHaveProperty('required');
    expect(schemaOf(Strict)?.status).not.toHaveProperty('required');
    expect(schemaOf(Strict)?.status?.properties?.store?.required).toEqual(['name']);
    const status = { observedGeneration: 1 } satisfies ObjectOf<typeof Strict>['status'];
    expect(status).toBeDefined();
    // @ts-expect-error a nested field that is required stays so
    expect({ store: {} } satisfies ObjectOf<typeof Strict>['status']).toBeDefined();
  });

  test('keeps its description and its CEL rules', () => {
    expect(schemaOf(Pet)?.status).toMatchObject({
      description: 'How it is.',
      'x-kubernetes-validations': [{ rule: 'has(self.id)' }],
    });
  });
});

describe('the kind', () => {
  test('is namespaced by default', () => {
    expect(Pet.scope).toBe('Namespaced');
    expect(defineKind({ ...Pet.definition, scope: 'Cluster' }).scope).toBe('Cluster');
  });

  test('does not modify the given definition', () => {
    const status = Type.Object({ id: Type.String() });
    defineKind({ ...Pet.definition, status });
    expect(Object.keys(status.properties)).toEqual(['id']);
  });
});

describe('the types', () => {
  const pet = {
    metadata: { name: 'rex', uid: 'u', resourceVersion: '1', generation: 1, creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: { name: 'Rex', tags: [] },
  } satisfies Pet;

  test('of spec and status derive from the schemas', () => {
    const condition: Condition = { type: 'Ready', status: 'True', reason: 'R', message: '', lastTransitionTime: '' };
    const full = { ...pet, spec: { ...pet.spec, age: 3 }, status: { id: 'x', conditions: [condition] } } satisfies Pet;
    expect(full.status.conditions).toHaveLength(1);
    // @ts-expect-error a name is a text
    expect({ ...pet, spec: { name: 1, tags: [] } } satisfies Pet).toBeDefined();
    // @ts-expect-error tags are required
    expect({ ...pet, spec: { name: 'Rex' } } satisfies Pet).toBeDefined();
    // @ts-expect-error a condition's status is one of three words
    expect({ ...pet, status: { conditions: [{ ...condition, status: 'Maybe' }] } } satisfies Pet).toBeDefined();
    // @ts-expect-error the API server counts the generations of a custom kind
    expect({ ...pet, metadata: { name: 'rex' } } satisfies Pet).toBeDefined();
  });

  test('are deeply readonly', () => {
    const frozen: Pet = pet;
    // @ts-expect-error the store's objects are shared
    expect(() => frozen.spec.tags.push('a')).not.toThrow();
    // @ts-expect-error the store's objects are shared
    frozen.spec.name = 'Max';
    expect(frozen.spec.tags).toEqual(['a']);
  });
});

describe('what a client may send', () => {
  const Site = defineKind({
    ...Pet.definition,
    spec: Type.Object({
      host: Type.String(),
      replicas: Type.With(Type.Integer({ minimum: 0 }), { default: 1 }),
      ports: Type.Array(Type.Object({ port: Type.Integer(), protocol: Type.With(Type.String(), { default: 'TCP' }) })),
      labels: Type.Optional(
        Type.Record(Type.String(), Type.Object({ on: Type.With(Type.Boolean(), { default: true }) })),
      ),
    }),
  });
  type Input = Manifest<ObjectOf<typeof Site>>;
  const metadata = { name: 'a' };

  test('may lack fields with a default, also nested ones, which the stored object has', () => {
    const sent: Input = { metadata, spec: { host: 'a', ports: [{ port: 80 }], labels: { a: {} } } };
    expect(sent.spec.replicas).toBeUndefined();
    const full: Input = { metadata, spec: { host: 'a', replicas: 2, ports: [{ port: 80, protocol: 'UDP' }] } };
    expect(full.spec.replicas).toBe(2);
    const stored = (site: ObjectOf<typeof Site>): number => site.spec.replicas;
    expect(stored).toBeDefined();
    expect(schemaOf(Site)?.spec).toMatchObject({
      properties: { replicas: { type: 'integer', minimum: 0, default: 1 } },
    });
  });

  test('has every other field, each of its type', () => {
    // @ts-expect-error host is required
    expect({ metadata, spec: { ports: [] } } satisfies Input).toBeDefined();
    // @ts-expect-error port is required
    expect({ metadata, spec: { host: 'a', ports: [{ protocol: 'TCP' }] } } satisfies Input).toBeDefined();
    // @ts-expect-error a number
    expect({ metadata, spec: { host: 'a', ports: [], replicas: '1' } } satisfies Input).toBeDefined();
    // @ts-expect-error a misspelt member
    expect({ metadata, spec: { host: 'a', ports: [], replica: 1 } } satisfies Input).toBeDefined();
    // @ts-expect-error a stored object has the field
    expect({ ports: [], host: 'a' } satisfies ObjectOf<typeof Site>['spec']).toBeDefined();
  });

  test('is taken by the client, by an apply of a child, and in a list of children', () => {
    const spec = { host: 'a', ports: [] };
    const uses = (client: Client, { apply }: Pick<Context<Custom, 'R', 0, 0, Record<never, never>>, 'apply'>) => [
      client.create(Site, { metadata, spec }),
      client.apply(Site, { metadata, spec }),
      apply(Site, { spec }),
      // @ts-expect-error host is required
      client.create(Site, { metadata, spec: { ports: [] } }),
      // @ts-expect-error host is required
      apply(Site, { spec: { ports: [] } }),
    ];
    expect(uses).toBeDefined();
    expect(child(Site, { spec }).manifest).toEqual({ spec });
    // @ts-expect-error host is required
    expect(child(Site, { spec: { ports: [] } })).toBeDefined();
  });
});

describe('missingField', () => {
  const House = defineKind({
    ...Pet.definition,
    spec: Type.Object({
      name: Type.String(),
      door: Type.Object({ width: Type.Integer(), color: Type.Optional(Type.String()) }),
      cellar: Type.Optional(Type.Object({ depth: Type.Integer() })),
    }),
  });

  test.each([
    ['of an object without a spec is its first required field', undefined, 'spec.name'],
    ['of an empty spec is its first required field', {}, 'spec.name'],
    ['treats null as missing', { name: null, door: { width: 1 } }, 'spec.name'],
    ['looks into a missing required field', { name: 'a' }, 'spec.door.width'],
    ['looks into a required field', { name: 'a', door: {} }, 'spec.door.width'],
    ['looks into an optional field that is set', { name: 'a', door: { width: 1 }, cellar: {} }, 'spec.cellar.depth'],
    ['is undefined if all required fields are set', { name: '', door: { width: 0 } }, undefined],
  ])('%s', (_, spec, expected) => {
    const object = { metadata: { name: 'h', uid: 'u', resourceVersion: '1', creationTimestamp: '' }, spec };
    expect(missingField(House, object)).toBe(expected);
  });
});

describe('specProblem', () => {
  const House = defineKind({
    ...Pet.definition,
    spec: Type.Object({
      name: Type.String({ maxLength: 3 }),
      doors: Type.Optional(Type.Integer({ minimum: 1, maximum: 9 })),
      height: Type.Optional(Type.Number({ exclusiveMinimum: 0, exclusiveMaximum: 100 })),
      style: Type.Optional(Type.Enum(['old', 'new'])),
      roof: Type.Optional(Type.Union([Type.Literal('flat'), Type.Literal('steep')])),
      plan: Type.Optional(Type.String({ minLength: 2, pattern: '^[a-z]*$' })),
      odd: Type.Optional(Type.String({ pattern: '(?P<re2>a)' })),
      spaceless: Type.Optional(Type.String({ pattern: '^[^\\s]*$' })),
      line: Type.Optional(Type.String({ pattern: '^.*$' })),
      file: Type.Optional(Type.String({ pattern: '^[a-z.]+\\.txt$' })),
      cost: Type.Optional(Type.Unsafe<string | number>({ 'x-kubernetes-int-or-string': true, pattern: '^[0-9]+$' })),
      sold: Type.Optional(Type.Boolean()),
      keys: Type.Optional(Type.Array(Type.String(), { minItems: 1 })),
      from: Type.Optional(Type.Object({ a: Type.Optional(Type.String()) }, { minProperties: 1 })),
      tags: Type.Optional(Type.Record(Type.String(), Type.String({ maxLength: 2 }), { maxProperties: 2 })),
      rooms: Type.Optional(Type.Array(Type.Object({ name: Type.String({ maxLength: 4 }) }), { maxItems: 2 })),
      free: Type.Optional(
        Type.Unsafe<object>({
          type: 'object',
          maxProperties: 2,
          'x-kubernetes-preserve-unknown-fields': true,
          properties: { policy: { type: 'string', maxLength: 1 } },
        }),
      ),
    }),
  });
  const nested = JSON.parse(`${'['.repeat(9900)}${']'.repeat(9900)}`) as unknown;

  test.each([
    ['a missing field', {}, 'spec.name is missing'],
    ['a text that is too long', { name: 'abcd' }, 'spec.name has 4 characters, at most 3 are allowed'],
    ['no text at its bound, counted in characters', { name: '👋👋👋' }, undefined],
    [
      'a map with too many entries',
      { name: 'a', tags: { a: '', b: '', c: '' } },
      'spec.tags has 3 entries, at most 2 are allowed',
    ],
    ['an entry of a map', { name: 'a', tags: { a: 'abc' } }, 'spec.tags.a has 3 characters, at most 2 are allowed'],
    ['a list with too many items', { name: 'a', rooms: [1, 2, 3] }, 'spec.rooms has 3 items, at most 2 are allowed'],
    [
      'an item of a list',
      { name: 'a', rooms: [{ name: 'b' }, { name: 'attic' }] },
      'spec.rooms[1].name has 5 characters, at most 4 are allowed',
    ],
    [
      'too many fields that the schema does not name',
      { name: 'a', free: { x: 1, y: 2, z: 3 } },
      'spec.free has 3 entries, at most 2 are allowed',
    ],
    ['nothing below such a field, however deep', { name: 'a', free: { x: nested } }, undefined],
    [
      'a field that the schema names beside them',
      { name: 'a', free: { policy: 'no' } },
      'spec.free.policy has 2 characters, at most 1 are allowed',
    ],
    ['a number that is too large', { name: 'a', doors: 10 }, 'spec.doors is 10, at most 9 is allowed'],
    ['a number that is too small', { name: 'a', doors: -2 }, 'spec.doors is -2, at least 1 is required'],
    ['a number at an excluded maximum', { name: 'a', height: 100 }, 'spec.height is 100, less than 100 is required'],
    ['a number at an excluded minimum', { name: 'a', height: 0 }, 'spec.height is 0, more than 0 is required'],
    ['a value that no enum has', { name: 'a', style: 'odd' }, 'spec.style is "odd", must be "old" or "new"'],
    ['a value that is no literal of a union', { name: 'a', roof: 'none' }, 'spec.roof is "none", must be "flat"'],
    ['no literal of a union', { name: 'a', roof: 'steep' }, undefined],
    ['a text that is too short', { name: 'a', plan: '👋' }, 'spec.plan has 1 characters, at least 2 are required'],
    ['a text of another pattern', { name: 'a', plan: 'A\n' }, 'spec.plan is "A\\n", must match ^[a-z]*$'],
    [
      'only the beginning of a long text',
      { name: 'a', plan: 'A'.repeat(200) },
      `spec.plan is "${'A'.repeat(100)}"…, must match ^[a-z]*$`,
    ],
    [
      'no white space beyond ASCII, which RE2 does not take for white space',
      { name: 'a', spaceless: '\u00a0' },
      undefined,
    ],
    ['no end of a line but a line feed', { name: 'a', line: 'a\u2028b\r' }, undefined],
    [
      'a text without a dot that is literal',
      { name: 'a', file: 'atxt' },
      'spec.file is "atxt", must match ^[a-z.]+\\.txt$',
    ],
    [
      'an integer that JavaScript rounds',
      { name: 'a', cost: 2 ** 53 },
      'spec.cost is an integer beyond ±(2^53-1), which may have been rounded: use a smaller one, or for a quantity a string',
    ],
    ['no text with a pattern that JavaScript does not have', { name: 'a', odd: 'b' }, undefined],
    [
      'a text of another pattern where a number may be',
      { name: 'a', cost: 'x' },
      'spec.cost is "x", must match ^[0-9]+$',
    ],
    ['no number where a text may be', { name: 'a', cost: 7 }, undefined],
    ['a list with too few items', { name: 'a', keys: [] }, 'spec.keys has 0 items, at least 1 is required'],
    ['an object with too few members', { name: 'a', from: {} }, 'spec.from has 0 entries, at least 1 is required'],
    ['a value that is no text', { name: 5 }, 'spec.name is 5, must be string'],
    ['a value that is no integer', { name: 'a', doors: 1.5 }, 'spec.doors is 1.5, must be integer'],
    ['a value that is no boolean', { name: 'a', sold: 'true' }, 'spec.sold is "true", must be boolean'],
    ['a value that is no list', { name: 'a', rooms: {} }, 'spec.rooms is an object, must be array'],
    ['a value that is no map', { name: 'a', tags: [1] }, 'spec.tags is a list, must be object'],
    [
      'a value that is neither an integer nor a text',
      { name: 'a', cost: 1.5 },
      'spec.cost is 1.5, must be integer or string',
    ],
    ['nothing that is null, which the API server drops', { name: 'a', doors: null, rooms: null }, undefined],
  ])('names %s', (_, spec, expected) => {
    const object = { metadata: { name: 'h', uid: 'u', resourceVersion: '1', creationTimestamp: '' }, spec };
    expect(specProblem(House, object)).toBe(expected);
  });
});
