import { minimal, nameOf, propertiesOf, type Schema, withValue } from '../../../packages/testing/src/spec-mutations.ts';

/** A schema with what the search for worst values reads besides. */
export type BoundedSchema = Omit<Schema, 'properties' | 'items' | 'additionalProperties'> & {
  readonly properties?: Readonly<Record<string, BoundedSchema>>;
  readonly items?: BoundedSchema;
  readonly additionalProperties?: BoundedSchema;
  readonly maxItems?: number;
  readonly maxProperties?: number;
  readonly minItems?: number;
  readonly minProperties?: number;
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean;
  readonly 'x-kubernetes-list-map-keys'?: readonly string[];
};

/** An object with a costly value of one property. */
export interface WorstObject {
  /** `spec.bookApp.env[].name` */
  readonly property: string;
  /** `1,000,000 blanks` */
  readonly value: string;
  /** The object's body, as JSON. A text, because JSON.stringify takes no value that is nested deeply. */
  readonly json: string;
}

/** How much a property gets. Nothing, if that is 0. */
export interface Amounts {
  /** What a property without a bound gets. */
  readonly characters: number;
  readonly entries: number;
  readonly levels: number;
  /** How much more than its bound a property gets that has one. */
  readonly excess: number;
  /**
   * Whether a property also gets other values that its schema refuses: below a bound, of no enum, of another pattern.
   */
  readonly isInvalid?: boolean;
}

/**
 * What a property without a bound gets: most of what etcd takes (1.5 MiB), and a depth just below the API server's
 * limit of 10,000.
 */
const worst: Amounts = { characters: 1_000_000, entries: 9000, levels: 9900, excess: 0 };

/** Just above each bound, and other values that the schema refuses. */
export const refused: Amounts = { characters: 0, entries: 0, levels: 0, excess: 1, isInvalid: true };

/** Stands for JSON that is nested deeply. */
const lists = '@@lists@@';
const maps = '@@maps@@';

const nested = {
  [lists]: '['.repeat(worst.levels) + ']'.repeat(worst.levels),
  // The keys are those that `metadata.managedFields` has too.
  [maps]: `${'{"f:a":'.repeat(worst.levels)}{}${'}'.repeat(worst.levels)}`,
};

/** Converts a body with stand-ins to JSON. */
function toJson(body: unknown): string {
  return JSON.stringify(body).replaceAll(/"(@@(?:lists|maps)@@)"/g, (_, stand: keyof typeof nested) => nested[stand]);
}

/**
 * Returns, for each property of a schema, objects that give it its longest text, most entries or deepest nesting: the
 * bound, or what {@link Amounts} says where the schema has none. Whether a value is valid, the API server decides.
 *
 * @param base a valid object, which each object changes in one property
 */
export function worstObjects(schema: BoundedSchema, base: object, amounts: Amounts = worst): readonly WorstObject[] {
  return propertiesOf(schema as Schema, []).flatMap(({ path, schema: own }) =>
    [
      ...worstValues(own as BoundedSchema, amounts),
      ...valuesIf(amounts.isInvalid ? 1 : 0, () => invalidValues(own as BoundedSchema)),
    ].map(([value, worstValue]) => {
      const body = withValue(base, schema as Schema, path, worstValue, {});
      return { property: nameOf(path), value, json: toJson(body) };
    }),
  );
}

function worstValues(schema: BoundedSchema, amounts: Amounts): readonly (readonly [string, unknown])[] {
  const { type, items, additionalProperties, properties, maxItems, maxLength, maxProperties } = schema;
  const countFor = (bound: number | undefined, otherwise: number): number =>
    bound === undefined ? otherwise : bound + amounts.excess;
  const isFree =
    schema['x-kubernetes-preserve-unknown-fields'] === true ||
    (type === 'object' && properties === undefined && additionalProperties === undefined);
  const own = () => minimal(schema as Schema, '', {}) as object;
  if (isFree) {
    const { levels } = amounts;
    const fields = countFor(maxProperties, amounts.entries);
    return [
      ...valuesIf(levels, () => [
        [`${levels} levels of maps`, { ...own(), 'f:a': maps }],
        [`${levels} levels of lists`, { ...own(), 'f:a': lists }],
      ]),
      ...valuesIf(fields, () => [[`${fields} fields`, entriesOf(fields, 'f:a', {})]]),
    ];
  }
  if (schema.enum !== undefined) return [];
  if (type === 'array') {
    const count = countFor(maxItems, amounts.entries);
    return valuesIf(count, () => [[`${count} items`, times(count, (index) => distinct(items ?? {}, schema, index))]]);
  }
  if (additionalProperties !== undefined) {
    const count = countFor(maxProperties, amounts.entries);
    const value = minimal(additionalProperties as Schema, '', {});
    return valuesIf(count, () => [[`${count} entries`, entriesOf(count, 'k', value)]]);
  }
  if (type !== 'string' && schema['x-kubernetes-int-or-string'] !== true) return [];
  const count = countFor(maxLength, amounts.characters);
  return valuesIf(count, () => [
    [`${count} blanks`, ' '.repeat(count)],
    [`${count} letters`, 'x'.repeat(count)],
    // Backtracks in a pattern that trims.
    [`${count} blanks between letters`, `x${' '.repeat(Math.max(0, count - 2))}x`],
  ]);
}

/** Texts of which a pattern refuses at least one. */
const texts = ['', ' ', 'a\u0000b', '2GB', 'Not_A.Name'];

/** Values that a schema refuses, beside those above a bound. */
function invalidValues(schema: BoundedSchema): Values {
  const {
    type,
    minimum,
    maximum,
    minLength = 0,
    minItems = 0,
    minProperties = 0,
    pattern,
    additionalProperties,
  } = schema;
  if (schema.enum !== undefined) return [['no value of the enum', 'none of the values']];
  if (type === 'integer') {
    return [
      ...valuesIf(minimum === undefined ? 0 : 1, () => [['below the minimum', (minimum ?? 0) - 1]]),
      ...valuesIf(maximum === undefined ? 0 : 1, () => [['above the maximum', (maximum ?? 0) + 1]]),
    ];
  }
  if (type === 'array') return valuesIf(minItems, () => [['no items', []]]);
  if (type === 'object') {
    return [
      ...valuesIf(minProperties, () => [['no members', {}]]),
      ...valuesIf(additionalProperties === undefined ? 0 : 1, () => [
        ['a long key', { ['k'.repeat(400)]: minimal(additionalProperties as Schema, '', {}) }],
      ]),
    ];
  }
  const isRefused = (text: string) =>
    text.length < minLength || (pattern !== undefined && !new RegExp(pattern, 'u').test(text));
  return texts.filter(isRefused).map((text) => [JSON.stringify(text), text]);
}

type Values = readonly (readonly [string, unknown])[];

const valuesIf = (count: number, make: () => Values): Values => (count === 0 ? [] : make());

const entriesOf = (count: number, prefix: string, value: unknown): object =>
  Object.fromEntries(times(count, (index) => [`${prefix}${index}`, value]));

/** An item of a list that differs from the others, if its schema allows that. */
function distinct(items: BoundedSchema, list: BoundedSchema, index: number): unknown {
  if (items.enum !== undefined) return items.enum[0];
  if (items.type === 'string') return `k${index}`;
  if (items.type === 'integer') return index;
  const keys = new Set([...(list['x-kubernetes-list-map-keys'] ?? []), 'name', 'uid', 'type']);
  const names = Object.keys(items.properties ?? {}).filter(
    (name) => keys.has(name) && items.properties?.[name]?.type === 'string',
  );
  const item = minimal(items as Schema, '', {}) as object;
  return { ...item, ...Object.fromEntries(names.map((name) => [name, `k${index}`])) };
}

const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index));

/** Keywords that limit a value, besides its type. */
const limiting = new Set([
  'enum',
  'minimum',
  'maximum',
  'maxLength',
  'maxItems',
  'maxProperties',
  'minLength',
  'minItems',
  'minProperties',
  'pattern',
  'format',
  'x-kubernetes-validations',
]);

/**
 * Returns a copy of a schema without bounds, enums, patterns and rules: what an earlier CustomResourceDefinition may
 * have been.
 */
export function withoutBounds<T>(schema: T): T {
  if (Array.isArray(schema)) return schema.map(withoutBounds) as T;
  if (typeof schema !== 'object' || schema === null) return schema;
  const kept = Object.entries(schema).filter(
    ([keyword, value]) => !limiting.has(keyword) || (typeof value === 'object' && !Array.isArray(value)),
  );
  return Object.fromEntries(kept.map(([keyword, value]) => [keyword, withoutBounds(value)])) as T;
}
