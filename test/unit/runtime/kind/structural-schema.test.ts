import { describe, expect, test } from '@jest/globals';
import Type from 'typebox';
import {
  type Json,
  NotStructuralError,
  structuralSchema,
} from '../../../../packages/runtime/src/kind/structural-schema.ts';

/** As `customResourceDefinition` hands a schema over: without what TypeBox keeps for the type system. */
const structural = (schema: object): unknown => structuralSchema(JSON.parse(JSON.stringify(schema)) as Json, 'spec');

describe('converts', () => {
  const rewrites: readonly [string, object, object][] = [
    ['a literal', Type.Literal('dog'), { type: 'string', enum: ['dog'] }],
    ['a literal number', Type.Literal(1), { type: 'integer', enum: [1] }],
    ['a literal boolean', Type.Literal(true), { type: 'boolean', enum: [true] }],
    [
      'a union of literals',
      Type.Union([Type.Literal('dog'), Type.Literal('cat')]),
      { type: 'string', enum: ['dog', 'cat'] },
    ],
    ['an enum without a type', Type.Enum(['a', 'b']), { type: 'string', enum: ['a', 'b'] }],
    ['an enum of integers', Type.Enum([1, 2]), { type: 'integer', enum: [1, 2] }],
    ['an enum of integers and other numbers', Type.Enum([1, 1.5]), { type: 'number', enum: [1, 1.5] }],
    ['a union with null', Type.Union([Type.Integer(), Type.Null()]), { type: 'integer', nullable: true }],
    ['a union with null first', Type.Union([Type.Null(), Type.String()]), { type: 'string', nullable: true }],
    [
      'a record',
      Type.Record(Type.String(), Type.Integer()),
      { type: 'object', additionalProperties: { type: 'integer' } },
    ],
    [
      'numeric exclusive bounds',
      Type.Number({ exclusiveMinimum: 0, exclusiveMaximum: 1 }),
      { type: 'number', minimum: 0, exclusiveMinimum: true, maximum: 1, exclusiveMaximum: true },
    ],
    [
      'schemas within properties, items and additionalProperties',
      Type.Object({
        pets: Type.Array(Type.Object({ kind: Type.Literal('dog') })),
        ages: Type.Optional(Type.Object({}, { additionalProperties: Type.Union([Type.Integer(), Type.Null()]) })),
      }),
      {
        type: 'object',
        required: ['pets'],
        properties: {
          pets: {
            type: 'array',
            items: { type: 'object', required: ['kind'], properties: { kind: { type: 'string', enum: ['dog'] } } },
          },
          ages: { type: 'object', properties: {}, additionalProperties: { type: 'integer', nullable: true } },
        },
      },
    ],
  ];

  test.each(rewrites)('%s', (_, schema, expected) => {
    expect(structural(schema)).toEqual(expected);
  });

  test.each([
    ['a literal', Type.Literal('dog', { description: 'A pet.' })],
    ['a union of literals', Type.Union([Type.Literal('dog', { description: 'Barks.' })], { description: 'A pet.' })],
    ['a union with null', Type.Union([Type.String({ description: 'Inner.' }), Type.Null()], { description: 'A pet.' })],
    ['a record', Type.Record(Type.String(), Type.String({ description: 'Inner.' }), { description: 'A pet.' })],
  ])('%s keeps its own description', (_, schema) => {
    expect(structural(schema)).toMatchObject({ description: 'A pet.' });
  });

  test('keeps plain keywords and the extensions of Kubernetes as they are', () => {
    const schema = {
      type: 'string',
      title: 'Name',
      description: 'A name.',
      format: 'dns',
      default: 'a',
      example: 'b',
      enum: ['a', 'b'],
      nullable: false,
      minLength: 1,
      maxLength: 2,
      pattern: '^a',
      'x-kubernetes-validations': [{ rule: 'self != "c"', message: 'not c' }],
    };
    expect(structural(schema)).toEqual(schema);
  });

  test('does not require a type with int-or-string or preserve-unknown-fields', () => {
    expect(structural({ 'x-kubernetes-preserve-unknown-fields': true })).toEqual({
      'x-kubernetes-preserve-unknown-fields': true,
    });
    expect(structural({ 'x-kubernetes-int-or-string': true })).toEqual({ 'x-kubernetes-int-or-string': true });
  });
});

describe('errors contain the path', () => {
  const refusals: readonly [string, object, string, RegExp][] = [
    [
      'a union of types',
      Type.Object({ size: Type.Union([Type.Integer(), Type.String()]) }),
      'spec.size',
      /anyOf has no structural form.*x-kubernetes-validations/,
    ],
    [
      'a union of two types with null',
      Type.Object({ size: Type.Union([Type.Integer(), Type.String(), Type.Null()]) }),
      'spec.size',
      /anyOf has no structural form.*x-kubernetes-validations/,
    ],
    [
      'literals of two types',
      Type.Object({ size: Type.Union([Type.Literal('a'), Type.Literal(1)]) }),
      'spec.size',
      /one type, not string and integer/,
    ],
    [
      // kube-openapi's enum validator never lets null pass, `nullable` or not, even if the enum holds it.
      'an enum with null',
      Type.Object({ kind: Type.Union([Type.Literal('dog'), Type.Null()]) }),
      'spec.kind',
      /an enum cannot be null/,
    ],
    ['an empty enum', Type.Object({ kind: Type.Enum([]) }), 'spec.kind', /must have a value/],
    ['null among the values', { type: 'object', properties: { a: { enum: ['x', null] } } }, 'spec.a', /not null/],
    [
      'only null',
      Type.Object({ nothing: Type.Object({ at: Type.Unsafe({ const: null }) }) }),
      'spec.nothing.at',
      /null/,
    ],
    [
      'an intersection',
      Type.Object({ a: Type.Intersect([Type.Object({}), Type.Object({})]) }),
      'spec.a',
      /allOf has no structural form/,
    ],
    ['oneOf', Type.Object({ a: Type.Unsafe({ type: 'string', oneOf: [] }) }), 'spec.a', /oneOf has no structural form/],
    ['a reference', Type.Object({ a: Type.Unsafe({ $ref: '#/b' }) }), 'spec.a', /\$ref has no structural form/],
    ['a tuple', Type.Object({ a: Type.Tuple([Type.String()]) }), 'spec.a', /additionalItems|items|schema must be/],
    ['anything', Type.Object({ a: Type.Any() }), 'spec.a', /the type is missing.*x-kubernetes-preserve-unknown-fields/],
    [
      'closed objects',
      Type.Object({ a: Type.Object({}, { additionalProperties: false }) }),
      'spec.a',
      /unknown fields are pruned anyway/,
    ],
    [
      'a record whose keys have a pattern',
      Type.Object({ a: Type.Record(Type.String({ pattern: '^x' }), Type.String()) }),
      'spec.a',
      /no structural form for the pattern \^x.*Type\.Record/,
    ],
    [
      'two patterns',
      Type.Object({ a: Type.Unsafe({ type: 'object', patternProperties: { '^a': {}, '^b': {} } }) }),
      'spec.a',
      /only with one pattern/,
    ],
    [
      'a schema that is not an object',
      Type.Object({ a: Type.Unsafe({ type: 'array', items: true }) }),
      'spec.a[]',
      /must be an object, not true/,
    ],
    [
      'inside a list',
      Type.Object({ list: Type.Array(Type.Any()) }),
      'spec.list[]',
      /the type is missing.*x-kubernetes-preserve-unknown-fields/,
    ],
    [
      'inside a record',
      Type.Object({ map: Type.Record(Type.String(), Type.Object({ a: Type.Any() })) }),
      'spec.map{}.a',
      /the type is missing.*x-kubernetes-preserve-unknown-fields/,
    ],
    [
      'inside a union with null',
      Type.Object({ a: Type.Union([Type.Object({ b: Type.Any() }), Type.Null()]) }),
      'spec.a.b',
      /the type is missing.*x-kubernetes-preserve-unknown-fields/,
    ],
  ];

  test.each(refusals)('%s', (_, schema, path, problem) => {
    const refused = (): unknown => structural(schema);
    expect(refused).toThrow(NotStructuralError);
    expect(refused).toThrow(problem);
    expect(refused).toThrow(expect.objectContaining({ path }) as never);
    expect(refused).toThrow(`schema at ${path}: `);
  });
});
