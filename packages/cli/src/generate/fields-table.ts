import { cellCode, cellText, markdownTable } from './markdown-table.ts';

/** A CEL rule, as in `x-kubernetes-validations`. */
interface CelRule {
  readonly rule: string;
  readonly message?: string;
}

/** The schema of a field in a CustomResourceDefinition: the keywords that its description needs. */
export interface FieldSchema {
  readonly type?: string;
  readonly description?: string;
  readonly format?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly nullable?: boolean;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: boolean;
  readonly exclusiveMaximum?: boolean;
  readonly multipleOf?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, FieldSchema>>;
  readonly items?: FieldSchema;
  readonly additionalProperties?: FieldSchema | boolean;
  readonly 'x-kubernetes-int-or-string'?: boolean;
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean;
  readonly 'x-kubernetes-list-type'?: string;
  readonly 'x-kubernetes-list-map-keys'?: readonly string[];
  readonly 'x-kubernetes-validations'?: readonly CelRule[];
}

/**
 * Returns a table with each field of a spec, at every depth: its path, the values that it takes, and its meaning. The
 * path of an item's field has `[]`, that of a field of a map's values has `.*`.
 */
export const fieldsTable = (spec: FieldSchema): string =>
  markdownTable(
    ['field', 'takes', 'meaning'],
    rowsOf(spec, '').map(({ path, takes, meaning }) => [path, takes, meaning]),
  );

/** Returns a table with each field of a status, like {@link fieldsTable}. Every field may be absent. */
export const statusTable = (status: FieldSchema): string =>
  markdownTable(
    ['field of the status', 'value', 'meaning'],
    rowsOf(status, '').map(({ path, value, meaning }) => [path, value, meaning]),
  );

/** Returns the CEL rules of a schema itself, not of its fields, as a Markdown list. Empty if there are none. */
export const rulesList = (schema: FieldSchema): string =>
  rulesOf(schema)
    .map((rule) => `- ${rule}\n`)
    .join('');

/** The cells for a field. */
interface FieldRow {
  readonly path: string;
  readonly value: string;
  /** The value, and whether the field may be absent: `a whole number from 0 to 5; default 1`. */
  readonly takes: string;
  readonly meaning: string;
}

function rowsOf({ properties = {}, required = [], ...schema }: FieldSchema, path: string): readonly FieldRow[] {
  const { items, additionalProperties } = schema;
  const ofFields = Object.entries(properties).flatMap(([name, field]) => {
    const fieldPath = path === '' ? name : `${path}.${name}`;
    const row = fieldRow(fieldPath, field, required.includes(name));
    // The API conventions define the conditions of every kind.
    return fieldPath === 'conditions' ? [row] : [row, ...rowsOf(field, fieldPath)];
  });
  return [
    ...ofFields,
    ...(items ? rowsOf(items, `${path}[]`) : []),
    ...(typeof additionalProperties === 'object' ? rowsOf(additionalProperties, `${path}.*`) : []),
  ];
}

function fieldRow(path: string, schema: FieldSchema, isRequired: boolean): FieldRow {
  const value = valuesOf(schema);
  const absent = isRequired ? 'required' : 'optional';
  const presence = schema.default === undefined ? absent : `default ${jsonCode(schema.default)}`;
  return { path: `\`${path}\``, value, takes: `${value}; ${presence}`, meaning: meaningOf(schema) };
}

const meaningOf = (schema: FieldSchema): string =>
  [cellText(schema.description ?? ''), ...rulesOf(schema).map((rule) => `Rule: ${rule}`)].join(' ').trim();

const rulesOf = ({ 'x-kubernetes-validations': rules = [] }: FieldSchema): readonly string[] =>
  rules.map(({ rule, message }) => (message === undefined ? `${cellCode(rule)}.` : withFullStop(cellText(message))));

const withFullStop = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`);

/** The values of a schema, in words. */
function valuesOf(schema: FieldSchema): string {
  return `${notNullOf(schema)}${schema.nullable ? ' or null' : ''}`;
}

function notNullOf(schema: FieldSchema): string {
  if (schema.enum !== undefined) return alternatives(schema.enum.map(jsonCode));
  if (schema['x-kubernetes-int-or-string']) return `a whole number or a string${textBounds(schema)}`;
  switch (schema.type) {
    case 'string':
      return stringOf(schema);
    case 'integer':
      return `a whole number${numberBounds(schema)}`;
    case 'number':
      return `a number${numberBounds(schema)}`;
    case 'boolean':
      return 'true or false';
    case 'array':
      return listOf(schema);
    case 'object':
      return objectOf(schema);
    default:
      return 'any value';
  }
}

function stringOf({ format, ...schema }: FieldSchema): string {
  if (format === 'date-time') return 'a time of RFC 3339';
  return `a string${format === undefined ? '' : ` of the format \`${format}\``}${textBounds(schema)}`;
}

const textBounds = ({ minLength, maxLength, pattern }: FieldSchema): string =>
  [
    countOf(minLength, maxLength, 'character'),
    ...(pattern === undefined ? [] : [` that matches ${cellCode(pattern)}`]),
  ].join('');

function numberBounds({ minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf }: FieldSchema): string {
  const from = minimum !== undefined && ` ${exclusiveMinimum ? 'above' : 'from'} ${digits(minimum)}`;
  const to = maximum !== undefined && ` ${exclusiveMaximum ? 'below' : from ? 'to' : 'up to'} ${digits(maximum)}`;
  const multiple = multipleOf !== undefined && `, a multiple of ${digits(multipleOf)}`;
  return [from, to, multiple].filter((part) => part !== false).join('');
}

function listOf({ items = {}, minItems, maxItems, ...schema }: FieldSchema): string {
  const keys = schema['x-kubernetes-list-map-keys'] ?? [];
  const unique = keys.length > 0 ? `, unique by ${keys.map((key) => `\`${key}\``).join(' and ')}` : '';
  const set = schema['x-kubernetes-list-type'] === 'set' ? ', no two equal' : '';
  return `a list${countOf(minItems, maxItems, 'item')}, each ${valuesOf(items)}${unique}${set}`;
}

function objectOf({ properties, additionalProperties, minProperties, maxProperties, ...schema }: FieldSchema): string {
  if (typeof additionalProperties === 'object')
    return `a map${countOf(minProperties, maxProperties, 'entry')}, each ${valuesOf(additionalProperties)}`;
  const others = schema['x-kubernetes-preserve-unknown-fields'] || additionalProperties === true;
  const fields = countOf(minProperties, maxProperties, 'field');
  if (!others) return `an object${fields}`;
  return `an object${fields} with ${properties === undefined ? 'any fields' : 'these and any other fields'}`;
}

const plurals = { character: 'characters', item: 'items', entry: 'entries', field: 'fields' } as const;

/** For example ` of 1 to 4,096 characters`. Empty without bounds. */
function countOf(min: number | undefined, max: number | undefined, unit: keyof typeof plurals): string {
  const counted = (count: number): string => `${digits(count)} ${count === 1 ? unit : plurals[unit]}`;
  if (min === undefined || min === 0) return max === undefined ? '' : ` of up to ${counted(max)}`;
  if (max === undefined) return ` of at least ${counted(min)}`;
  return min === max ? ` of ${counted(min)}` : ` of ${digits(min)} to ${counted(max)}`;
}

const digits = (value: number): string => value.toLocaleString('en-US', { maximumFractionDigits: 20 });

const jsonCode = (value: unknown): string => cellCode(typeof value === 'string' ? value : JSON.stringify(value));

const alternatives = (values: readonly string[]): string =>
  [values.slice(0, -1).join(', '), ...values.slice(-1)].filter((part) => part !== '').join(' or ');
