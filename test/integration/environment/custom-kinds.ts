import type { Kind } from '@echoperator/runtime';
import type { CustomResourceDefinitionManifest } from '../../../packages/testing/src/api-server.ts';

const text = { type: 'string', maxLength: 20 } as const;

/** Has every keyword that the simulation knows. */
const spec = {
  type: 'object',
  required: ['needed', 'defaultedObject'],
  'x-kubernetes-validations': [
    { rule: '!has(self.low) || !has(self.high) || self.low <= self.high', message: ' low must not exceed high ' },
    { rule: "!has(self.words) || self.words != ['forbidden', 'words']" },
    {
      rule: 'has(self.low) == has(oldSelf.low)',
      messageExpression: "'low cannot be ' + (has(self.low) ? 'set' : 'unset')",
      fieldPath: '.low',
      reason: 'FieldValueForbidden',
    },
    { rule: "self.needed != 'missing' || self.high > 0", message: 'reads high' },
    { rule: "!has(self.__namespace__) || self.__namespace__ != 'kube-system'", reason: 'FieldValueDuplicate' },
    { rule: "!has(self.with__dash__dash) || self.with__dash__dash.startsWith('a')", reason: 'FieldValueRequired' },
    { rule: '!has(self.amount) || type(self.amount) == int || isQuantity(self.amount)', fieldPath: '.amount' },
  ],
  properties: {
    needed: { type: 'string', minLength: 2, maxLength: 8 },
    enumerated: { type: 'string', enum: ['one', 'two "quoted"', 'A'] },
    counted: { type: 'integer', enum: [1, 3] },
    rated: { type: 'number', enum: [1, 2.5] },
    letters: { type: 'string', pattern: '^[^\\s.]+.\\pL?$', maxLength: 5 },
    low: { type: 'integer', format: 'int32', minimum: -2, exclusiveMaximum: true, maximum: 10 },
    high: { type: 'integer', format: 'int64', minimum: 0, exclusiveMinimum: true },
    plain: { type: 'integer', maximum: 1_000_000 },
    share: { type: 'number', minimum: 0.5, maximum: 2.5 },
    tiny: { type: 'number', exclusiveMinimum: true, minimum: 0.000_001, maximum: 1.5 },
    flag: { type: 'boolean', default: false },
    time: { type: 'string', format: 'date-time' },
    amount: { 'x-kubernetes-int-or-string': true, maxLength: 12, pattern: '^[^ ]*$', minimum: 1 },
    namespace: {
      ...text,
      'x-kubernetes-validations': [{ rule: "oldSelf != 'x'", message: 'refused also if it stays' }],
    },
    'with-dash': text,
    'no.name!': text,
    nullableText: { type: 'string', nullable: true, maxLength: 3, enum: ['a', 'b'] },
    nullableObject: { type: 'object', nullable: true, properties: { a: text } },
    defaultedNull: { type: 'string', nullable: true, default: 'd' },
    defaultedText: { type: 'string', default: 'd', minLength: 1 },
    defaultedObject: {
      type: 'object',
      default: { inner: 7 },
      required: ['inner'],
      properties: { inner: { type: 'integer', default: 5, minimum: 5 }, other: { type: 'string', default: 'x' } },
    },
    words: { type: 'array', maxItems: 3, items: text },
    lists: { type: 'array', minItems: 1, items: { type: 'array', maxItems: 2, items: { type: 'integer' } } },
    set: { type: 'array', maxItems: 4, 'x-kubernetes-list-type': 'set', items: { type: 'string', maxLength: 4 } },
    atomicSet: {
      type: 'array',
      'x-kubernetes-list-type': 'set',
      items: { type: 'array', 'x-kubernetes-list-type': 'atomic', items: { type: 'integer' } },
    },
    entries: {
      type: 'array',
      maxItems: 4,
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['key'],
      items: {
        type: 'object',
        required: ['key'],
        'x-kubernetes-validations': [
          { rule: "self.key != 'x' || has(self.value)", message: 'x needs a value' },
          { rule: '!has(oldSelf.value) || has(self.value)', message: 'a value cannot be removed' },
        ],
        properties: {
          key: { type: 'string', maxLength: 3 },
          value: {
            ...text,
            minLength: 1,
            'x-kubernetes-validations': [{ rule: "self == oldSelf || self != 'z'", message: 'not z' }],
          },
          nested: { type: 'object', additionalProperties: { type: 'integer', minimum: 3 } },
        },
      },
    },
    pairs: {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['port', 'protocol'],
      items: {
        type: 'object',
        required: ['port', 'protocol'],
        properties: {
          port: { type: 'integer', minimum: 1 },
          protocol: { type: 'string', default: 'TCP' },
          name: { type: 'string', minLength: 2 },
        },
      },
    },
    labels: {
      type: 'object',
      minProperties: 1,
      maxProperties: 3,
      additionalProperties: {
        type: 'string',
        maxLength: 5,
        'x-kubernetes-validations': [{ rule: "self != 'bad'", messageExpression: "'got ' + self" }],
      },
      'x-kubernetes-validations': [
        { rule: "self.all(key, key.size() <= 3 && !key.endsWith('q'))", message: 'short keys' },
        { rule: "!('a' in self) || self['a'].matches('^[a-c]*$')" },
        { rule: 'self.exists(key, self[key].contains("b")) || self.size() < 3', message: 'a b in three' },
      ],
    },
    numbers: { type: 'object', additionalProperties: { type: 'integer', nullable: true, maximum: 3 } },
    filled: { type: 'object', additionalProperties: { type: 'string', default: 'f' } },
    loose: {
      type: 'object',
      'x-kubernetes-preserve-unknown-fields': true,
      properties: { known: { type: 'string', minLength: 2 }, strict: { type: 'object', properties: { a: text } } },
    },
    anything: { 'x-kubernetes-preserve-unknown-fields': true },
    deep: {
      type: 'object',
      properties: {
        one: { type: 'object', required: ['two'], properties: { two: { type: 'string', maxLength: 2 } } },
        sibling: { type: 'integer', minimum: 3 },
      },
    },
  },
} as const;

const status = {
  type: 'object',
  required: ['phase'],
  properties: {
    phase: { type: 'string', minLength: 2 },
    count: { type: 'integer', format: 'int32' },
    kind: { type: 'string', maxLength: 2 },
    names: { type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'string', maxLength: 3 } },
    since: {
      type: 'string',
      maxLength: 3,
      'x-kubernetes-validations': [{ rule: "self != 'now'", message: 'cannot be now' }],
    },
  },
} as const;

const kindOf = (kind: string): Kind => ({
  group: 'test.example.com',
  version: 'v1',
  kind,
  plural: `${kind.toLowerCase()}s`,
  scope: 'Namespaced',
});

const definitionOf = (kind: Kind, subresources: object): CustomResourceDefinitionManifest =>
  ({
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${kind.plural}.${kind.group}` },
    spec: {
      group: kind.group,
      names: { kind: kind.kind, listKind: `${kind.kind}List`, plural: kind.plural, singular: kind.kind.toLowerCase() },
      scope: 'Namespaced',
      versions: [
        {
          name: kind.version,
          served: true,
          storage: true,
          schema: {
            openAPIV3Schema: {
              type: 'object',
              required: ['spec'],
              'x-kubernetes-validations': [{ rule: "!self.metadata.name.endsWith('-bad')", message: 'a bad name' }],
              properties: { spec, status },
            },
          },
          ...subresources,
        },
      ],
    },
  }) as unknown as CustomResourceDefinitionManifest;

/** Kinds of the test's own, with every keyword: with a status subresource, and without. */
export const syntheticKinds = [
  [kindOf('Thing'), { subresources: { status: {} } }] as const,
  [kindOf('Plain'), {}] as const,
].map(([kind, subresources]) => ({ kind, definition: definitionOf(kind, subresources) }));
