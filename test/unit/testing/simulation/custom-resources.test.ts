import { customResourceDefinition, type Kind } from '@echoperator/runtime';
import { describe, expect, test } from '@jest/globals';
import type { CustomResourceDefinitionManifest } from '../../../../packages/testing/src/api-server.ts';
import { customStrategy } from '../../../../packages/testing/src/simulation/custom-resources.ts';
import {
  NotSimulatedError,
  RefusedError,
  type StoredObject,
} from '../../../../packages/testing/src/simulation/strategy.ts';
import { Echo } from '../../../../src/kinds/echo/kind.ts';

const kind: Kind = { group: 'example.com', version: 'v1', kind: 'Thing', plural: 'things', scope: 'Namespaced' };

/** The strategy of a kind whose spec has this schema. */
function strategyOf(
  spec: object,
  { status = {}, rules = [] as object[], subresources = { status: {} } as object } = {},
) {
  const properties = { spec, status: { type: 'object', properties: status } };
  const openAPIV3Schema = { type: 'object', properties, 'x-kubernetes-validations': rules };
  const version = { name: 'v1', served: true, storage: true, schema: { openAPIV3Schema }, subresources };
  return customStrategy(kind, { spec: { versions: [version] } } as unknown as CustomResourceDefinitionManifest);
}

const object = (content: object, metadata: object = {}): StoredObject => ({
  apiVersion: 'example.com/v1',
  kind: 'Thing',
  metadata: { name: 'a', ...metadata },
  ...content,
});

function causesOf(run: () => unknown): readonly string[] {
  try {
    run();
  } catch (error) {
    if (!(error instanceof RefusedError)) throw error;
    return (error.status.details?.causes ?? []).map(({ reason, field, message }) => `${reason} ${field} ${message}`);
  }
  return [];
}

describe('decoding', () => {
  const strategy = strategyOf({
    type: 'object',
    properties: {
      mode: { type: 'string', default: 'slow' },
      nothing: { type: 'string', nullable: true, default: 'x' },
      inner: {
        type: 'object',
        default: { a: 1 },
        properties: { a: { type: 'integer' }, b: { type: 'integer', default: 2 } },
      },
      loose: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
      items: { type: 'array', items: { type: 'object', properties: { a: { type: 'string' } } } },
    },
  });
  const decodedSpec = (spec: unknown) => strategy.decode(object({ spec })).spec;

  test('fills in defaults, also in defaults', () => {
    expect(decodedSpec({})).toEqual({ mode: 'slow', nothing: 'x', inner: { a: 1, b: 2 } });
  });

  test('replaces null by the default unless null is allowed', () => {
    expect(decodedSpec({ mode: null, nothing: null, inner: {} })).toEqual({
      mode: 'slow',
      nothing: null,
      inner: { b: 2 },
    });
  });

  test('prunes unknown fields except where they are preserved', () => {
    const spec = {
      mode: 'm',
      nothing: 'n',
      inner: {},
      unknown: 1,
      loose: { any: [{ x: null }] },
      items: [{ a: 'a', b: 'b' }, null],
    };
    const { unknown: _, ...known } = spec;
    expect(decodedSpec(spec)).toEqual({ ...known, inner: { b: 2 }, items: [{ a: 'a' }, null] });
    expect(strategy.decode(object({ other: 1 }, { labels: { a: 'b' } }))).toEqual(object({}, { labels: { a: 'b' } }));
  });

  test('refuses to simulate an integer that JSON.parse may have rounded', () => {
    const numbers = strategyOf({ type: 'object', properties: { n: { type: 'integer' } } });
    expect(() => numbers.decode(object({ spec: { n: 2 ** 60 } }))).toThrow(NotSimulatedError);
  });
});

describe('creation and changes', () => {
  const replicas = { type: 'object', properties: { replicas: { type: 'integer' } } };

  test('creation drops the status and sets the first generation', () => {
    const created = strategyOf(replicas).create(object({ spec: { replicas: 1 }, status: {} }, { generation: 7 }));
    expect(created).toEqual(object({ spec: { replicas: 1 } }, { generation: 1 }));
    expect(strategyOf(replicas, { subresources: {} }).create(object({ status: {} })).status).toEqual({});
  });

  test('a change keeps the status, and increments the generation unless only the metadata changed', () => {
    const strategy = strategyOf(replicas);
    const old = object({ spec: { replicas: 1 }, status: { a: 1 } }, { generation: 3 });
    const relabelled = object({ spec: { replicas: 1 }, status: {} }, { labels: { a: 'b' } });
    expect(strategy.update(relabelled, old, undefined)).toEqual(
      object({ spec: { replicas: 1 }, status: { a: 1 } }, { labels: { a: 'b' }, generation: 3 }),
    );
    expect(strategy.update(object({ spec: { replicas: 2 } }), old, undefined).metadata.generation).toBe(4);
    const withoutStatus = strategyOf(replicas, { subresources: {} });
    expect(withoutStatus.update(object({ spec: { replicas: 1 } }), old, undefined).metadata.generation).toBe(4);
  });

  test('a change of the status keeps everything else except the field managers', () => {
    const old = object({ spec: { replicas: 1 } }, { generation: 3 });
    const changed = object({ spec: { replicas: 2 }, status: {} }, { labels: { a: 'b' }, managedFields: [] });
    expect(strategyOf(replicas).update(changed, old, 'status')).toEqual(
      object({ spec: { replicas: 1 }, status: {} }, { generation: 3, managedFields: [] }),
    );
  });
});

describe('validation', () => {
  test('an Echo is refused with the Status of the API server', () => {
    const strategy = customStrategy(Echo, customResourceDefinition(Echo));
    const echo = strategy.decode({
      apiVersion: 'mmontes.io/v1alpha1',
      kind: 'Echo',
      metadata: { name: 'a' },
      spec: { message: '' },
    });
    const message = 'Invalid value: "": spec.message in body should be at least 1 chars long';
    const expected = {
      code: 422,
      reason: 'Invalid',
      message: `Echo.mmontes.io "a" is invalid: spec.message: ${message}`,
      details: {
        name: 'a',
        group: 'mmontes.io',
        kind: 'Echo',
        causes: [{ reason: 'FieldValueInvalid', field: 'spec.message', message }],
      },
    };
    expect(() => strategy.create(echo)).toThrow(expect.objectContaining({ status: expected }));
  });

  test('a change may keep an invalid value, but may not change it to another', () => {
    const strategy = strategyOf({
      type: 'object',
      properties: { a: { type: 'string', maxLength: 1 }, b: { type: 'string' } },
    });
    const old = object({ spec: { a: 'long', b: 'x' } });
    expect(causesOf(() => strategy.update(object({ spec: { a: 'long', b: 'y' } }), old, undefined))).toEqual([]);
    expect(causesOf(() => strategy.update(object({ spec: { a: 'also' } }), old, undefined))).toEqual([
      'FieldValueTooLong spec.a Too long: may not be more than 1 byte',
    ]);
  });

  test('an integer is compared with the integral part of a bound', () => {
    const strategy = strategyOf({ type: 'object', properties: { a: { type: 'number', minimum: 0.5, maximum: 2.5 } } });
    expect([0, 2].flatMap((a) => causesOf(() => strategy.create(object({ spec: { a } }))))).toEqual([]);
    expect(causesOf(() => strategy.create(object({ spec: { a: 3 } })))).toEqual([
      'FieldValueInvalid spec.a Invalid value: 3: spec.a in body should be less than or equal to 2',
    ]);
  });

  test('equal elements of a set are reported once', () => {
    const list = { type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'string' } };
    const strategy = strategyOf({ type: 'object', properties: { list } });
    expect(causesOf(() => strategy.create(object({ spec: { list: ['a', 'b', 'a', 'a'] } })))).toEqual([
      'FieldValueDuplicate spec.list[2] Duplicate value: "a"',
    ]);
  });

  test('a pattern means what it means in RE2', () => {
    const strategy = strategyOf({ type: 'object', properties: { a: { type: 'string', pattern: '^\\S+$' } } });
    expect(causesOf(() => strategy.create(object({ spec: { a: 'no\u00a0break' } })))).toEqual([]);
  });

  test.each([
    [{ type: 'string', format: 'uuid' }],
    [{ type: 'array', uniqueItems: true }],
    [{ anyOf: [{ type: 'string' }] }],
    [{ type: 'object', 'x-kubernetes-embedded-resource': true }],
    [{ type: 'object', additionalProperties: true }],
    [{ type: 'string', 'x-kubernetes-validations': [{ rule: 'self.isSorted()' }] }],
    [{ type: 'string', 'x-kubernetes-validations': [{ rule: 'self == oldSelf', optionalOldSelf: true }] }],
    [{ type: 'string', 'x-kubernetes-validations': [{ rule: 'self ==' }] }],
    [{ type: 'string', 'x-kubernetes-validations': [{ rule: 'self == request' }] }],
    [{ type: 'string', 'x-kubernetes-validations': [{ rule: "self in {'a': 1}" }] }],
  ])('a definition with %j is refused when it is loaded', (a) => {
    expect(() => strategyOf({ type: 'object', properties: { a } })).toThrow(NotSimulatedError);
  });
});

describe('CEL rules', () => {
  const dbSize = { 'x-kubernetes-int-or-string': true };
  const size = "type(self.a) == int ? quantity('0').add(self.a) : quantity(self.a)";
  const oldSize = size.replaceAll('self', 'oldSelf');
  const strategy = strategyOf({
    type: 'object',
    properties: { a: dbSize },
    'x-kubernetes-validations': [
      {
        rule: `(${size}).compareTo(${oldSize}) >= 0`,
        message: 'shrinks',
        fieldPath: '.a',
        reason: 'FieldValueForbidden',
      },
    ],
  });
  const change = (from: unknown, to: unknown) =>
    causesOf(() => strategy.update(object({ spec: { a: to } }), object({ spec: { a: from } }), undefined));

  test('transition rules compare with the old object, and do not run at the creation', () => {
    expect(change('1Gi', '1025Mi')).toEqual([]);
    expect(change('1Gi', 1)).toEqual(['FieldValueForbidden spec.a Forbidden: shrinks']);
    expect(change('10Ei', '9Ei')).toEqual([]);
    expect(causesOf(() => strategy.create(object({ spec: { a: 1 } })))).toEqual([]);
  });

  test('an unchanged value may break a rule, but not one that reads the old value', () => {
    const keeping = (rule: string): readonly string[] => {
      const a = { type: 'string', 'x-kubernetes-validations': [{ rule, message: 'no' }] };
      const stored = object({ spec: { a: 'x' } });
      return causesOf(() => strategyOf({ type: 'object', properties: { a } }).update(stored, stored, undefined));
    };
    expect(keeping("self != 'x'")).toEqual([]);
    expect(keeping("oldSelf != 'x'")).toEqual(['FieldValueInvalid spec.a Invalid value: "x": no']);
  });

  test('a quantity that the API server reads in a way of its own is not simulated', () => {
    expect(() => change('1', '.')).toThrow(NotSimulatedError);
  });

  test('rules run only if the schema has no error that blocks them', () => {
    const rules = [{ rule: "self.metadata.name != 'a'", messageExpression: "'not ' + self.metadata.name" }];
    const named = strategyOf({ type: 'object', properties: { a: { type: 'string' } } }, { rules });
    expect(causesOf(() => named.create(object({ spec: {} })))).toEqual([
      'FieldValueInvalid <nil> Invalid value: not a',
    ]);
    const [, blocked] = causesOf(() => named.create(object({ spec: { a: 1 } })));
    expect(blocked).toMatch(/^FieldValueInvalid <nil> Invalid value: null: some validation rules were not checked/);
  });

  test('a rule that compares lists of the type set or map, or reads a time or null, is not simulated', () => {
    const list = { type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'string' } };
    const properties = {
      list,
      time: { type: 'string', format: 'date-time' },
      none: { type: 'string', nullable: true },
    };
    const spec = (rule: string) => strategyOf({ type: 'object', properties, 'x-kubernetes-validations': [{ rule }] });
    const create = (rule: string, content: object) => () => spec(rule).create(object({ spec: content }));
    expect(create("self.list == ['a']", { list: ['a'] })).toThrow(NotSimulatedError);
    expect(create("self.list.exists(each, each == 'a')", { list: ['a'] })).not.toThrow();
    expect(create("self.time != ''", { time: '2020-01-31T00:00:00Z' })).toThrow(NotSimulatedError);
    expect(create('has(self.none)', { none: null })).toThrow(NotSimulatedError);
    expect(create('!has(self.none)', { time: '2020-01-31T00:00:00Z' })).not.toThrow();
  });
});
