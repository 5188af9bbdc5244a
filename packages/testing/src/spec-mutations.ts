import { type CustomKind, customResourceDefinition } from '@echoperator/runtime';
import fc from 'fast-check';

/** A change of one property of a spec. The API server decides whether the result is valid. */
export interface SpecMutation {
  /** The path of the property: `bookApp.env[].name`, `template.metadata.labels.*`. */
  readonly property: string;
  /** `bookApp.replicas = 7` */
  readonly description: string;
  apply(spec: object): object;
}

/** The parts of a structural schema that {@link specMutations} reads. */
export interface Schema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly pattern?: string;
  readonly format?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: Schema;
  readonly 'x-kubernetes-int-or-string'?: boolean;
  readonly 'x-kubernetes-validations'?: readonly {
    readonly message?: string;
    readonly messageExpression?: string;
  }[];
}

/** A CEL rule of a spec. */
export interface SpecRule {
  /** `bookDB: dbSize cannot shrink` */
  readonly name: string;
  /** Whether the API server's rejection names this rule. */
  isNamedBy(rejection: string): boolean;
}

/** The values to try, by the path of the property. */
type Values = Readonly<Record<string, readonly unknown[]>>;

/** In a path, the segments for an element of a list and for a value of a map. */
const [element, anyKey] = ['[]', '*'] as const;

const unset = Symbol('unset');

/**
 * Returns mutations of each property of a kind's spec: ordinary values, bounds, enum values, Unicode, the longest text,
 * values just outside the bounds, values of another type, and the property's absence.
 *
 * @param values replaces the values that the schema suggests. The first value is also used where another property needs
 *   this one
 */
export function specMutations(kind: CustomKind, values: Values = {}): readonly SpecMutation[] {
  const schema = schemaOf(kind);
  return propertiesOf(schema, []).flatMap(({ path, schema: own }) => {
    const property = nameOf(path);
    const tried = values[property] ?? suggestedFor(own, property, values);
    return [...tried, unset].map((value) => ({
      property,
      description: value === unset ? `no ${property}` : `${property} = ${shortened(value)}`,
      apply: (spec: object) => withValue(spec, schema, path, value, values) as object,
    }));
  });
}

/** Returns the CEL rules of a kind's spec. A rule needs a message. */
export function specRules(kind: CustomKind): readonly SpecRule[] {
  const schema = schemaOf(kind);
  return [{ path: [], schema }, ...propertiesOf(schema, [])].flatMap(({ path, schema: own }) =>
    (own['x-kubernetes-validations'] ?? []).map(({ message = '', messageExpression }) => {
      // The API server's message is the value of the expression, which begins with a literal text.
      const beginning = messageExpression?.match(/'([^']+)'/)?.[1] ?? message;
      const name = [nameOf(path), message].filter((part) => part !== '').join(': ');
      return { name, isNamedBy: (rejection) => beginning !== '' && rejection.includes(beginning) };
    }),
  );
}

function schemaOf(kind: CustomKind): Schema {
  const [version] = customResourceDefinition(kind, { isStoredVersionOnly: true }).spec.versions;
  return version?.schema?.openAPIV3Schema?.properties?.spec as Schema;
}

const shortened = (value: unknown): string => {
  const text = JSON.stringify(value);
  return text.length <= 60 ? text : `${text.slice(0, 40)}… (${text.length} characters)`;
};

/** `['env', '[]', 'name']` is `env[].name`. */
export const nameOf = (path: readonly string[]): string => path.join('.').replaceAll(`.${element}`, element);

export interface Property {
  readonly path: readonly string[];
  readonly schema: Schema;
}

/** Every property below a schema: of objects, of the elements of lists and of the values of maps. */
export function propertiesOf(schema: Schema, path: readonly string[]): readonly Property[] {
  const { properties = {}, items, additionalProperties } = schema;
  const own = Object.entries(properties).map(([name, each]) => ({ path: [...path, name], schema: each }));
  return [
    ...own.flatMap((property) => [property, ...propertiesOf(property.schema, property.path)]),
    ...(items === undefined ? [] : propertiesOf(items, [...path, element])),
    ...(additionalProperties === undefined ? [] : propertiesOf(additionalProperties, [...path, anyKey])),
  ];
}

/** Returns a copy of a value with one property set or unset. Creates missing parents with their required members. */
export function withValue(
  old: unknown,
  schema: Schema,
  path: readonly string[],
  value: unknown,
  values: Values,
): unknown {
  const set = (part: unknown, of: Schema = {}, rest: readonly string[] = []) =>
    withValue(part, of, rest, value, values);
  const [segment, ...rest] = path;
  if (segment === undefined) return value;
  if (segment === element) {
    const [first = minimal(schema.items, '', values), ...others] = Array.isArray(old) ? old : [];
    return [set(first, schema.items, rest), ...others];
  }
  const fields = (old ?? minimal(schema, '', values)) as Readonly<Record<string, unknown>>;
  if (segment === anyKey) return { ...fields, mutated: set(fields.mutated, schema.additionalProperties, rest) };
  const { [segment]: part, ...others } = fields;
  const next = set(part, schema.properties?.[segment], rest);
  return next === unset ? others : { ...others, [segment]: next };
}

/** Returns a valid value without optional members. */
export function minimal(schema: Schema = {}, path: string, values: Values): unknown {
  const [preferred] = values[path] ?? [];
  if (preferred !== undefined) return preferred;
  const { required = [], properties = {}, items } = schema;
  if (schema.enum !== undefined) return schema.enum[0];
  switch (schema.type) {
    case 'object':
      return Object.fromEntries(required.map((name) => [name, minimal(properties[name], `${path}.${name}`, values)]));
    case 'array':
      return [minimal(items, path + element, values)];
    case 'string':
      return textsFor(schema)[0];
    case 'boolean':
      return true;
    case 'integer':
      return Math.max(1, schema.minimum ?? 1);
    default:
      return '1';
  }
}

/** Longer than the key of a label or an annotation, which has at most 317 characters. */
const longKey = 'k'.repeat(400);

function suggestedFor(schema: Schema, path: string, values: Values): readonly unknown[] {
  const { minimum, maximum } = schema;
  if (schema.enum !== undefined) return [...schema.enum, 'none of the values', 7];
  switch (schema.type) {
    case 'object':
      if (schema.additionalProperties === undefined) return [minimal(schema, path, values), {}, 'a text'];
      return [
        {
          one: minimal(schema.additionalProperties, '', values),
          other: minimal(schema.additionalProperties, '', values),
        },
        { 'no such key / 世界': minimal(schema.additionalProperties, '', values) },
        { [longKey]: minimal(schema.additionalProperties, '', values) },
        {},
        'a text',
      ];
    case 'array':
      return [minimal(schema, path, values), [], 'a text'];
    case 'string':
      return [...textsFor(schema), ...unusualTexts(schema), 7];
    case 'boolean':
      return [true, false, 'true'];
    case 'integer':
      return [
        7,
        ...(minimum === undefined ? [] : [minimum, minimum - 1]),
        ...(maximum === undefined ? [] : [maximum, maximum + 1]),
        1.5,
      ];
    default:
      return schema['x-kubernetes-int-or-string'] ? ['2', 2, 'a text', -1] : [];
  }
}

/** Texts that match the schema. */
function textsFor({ pattern, format, minLength = 1, maxLength = 300 }: Schema): readonly string[] {
  if (format === 'date-time') return ['2020-01-31T00:00:00Z', '2021-02-28T23:30:00+14:00'];
  if (pattern === undefined) return ['a'.repeat(minLength), 'another'].filter(({ length }) => length <= maxLength);
  const matching = fc
    .stringMatching(new RegExp(pattern, 'u'))
    .filter(({ length }) => length >= minLength && length <= maxLength);
  return fc.sample(matching, { numRuns: 3, seed: 1 });
}

const unusualTexts = ({ maxLength = 300 }: Schema): readonly string[] => [
  '',
  ' ',
  '世界 🐾 \u202e"\'\\',
  'x'.repeat(maxLength),
  'x'.repeat(maxLength + 1),
];
