import { isDeepStrictEqual } from 'node:util';
import { RE2JS } from '@bufbuild/re2';
import type { Kind } from '@echoperator/runtime';
import { getMember, getOwn, isObject, type JsonObject, schemaOfDefinition } from '@echoperator/runtime/internal';
import type { CustomResourceDefinitionManifest } from '../api-server.ts';
import { type CompiledRule, RuleCompiler, type ValidationRule } from './cel.ts';
import { type FieldError, fieldError, fieldValueError, invalid, printNumber, quote, toGoJson } from './field-error.ts';
import { customResetFields } from './field-managers.ts';
import { NotSimulatedError, type StoredMetadata, type StoredObject, type Strategy } from './strategy.ts';

type Bound = `${'min' | 'max'}${'imum' | 'Length' | 'Items' | 'Properties'}`;

/** A structural schema of a CustomResourceDefinition. */
interface StructuralSchema extends Readonly<Partial<Record<Bound, number>>> {
  readonly type?: string;
  readonly format?: string;
  readonly nullable?: boolean;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly pattern?: string;
  readonly exclusiveMinimum?: boolean;
  readonly exclusiveMaximum?: boolean;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, StructuralSchema>>;
  readonly additionalProperties?: StructuralSchema;
  readonly items?: StructuralSchema;
  readonly 'x-kubernetes-int-or-string'?: boolean;
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean;
  readonly 'x-kubernetes-list-type'?: string;
  readonly 'x-kubernetes-list-map-keys'?: readonly string[];
  readonly 'x-kubernetes-validations'?: readonly ValidationRule[];
}

const keywords: ReadonlySet<string> = new Set([
  ...['type', 'format', 'nullable', 'default', 'enum', 'pattern', 'required', 'description', 'title', 'example'],
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'minLength', 'maxLength', 'minItems', 'maxItems'],
  ...['minProperties', 'maxProperties', 'properties', 'additionalProperties', 'items', 'x-kubernetes-int-or-string'],
  ...['x-kubernetes-preserve-unknown-fields', 'x-kubernetes-list-type', 'x-kubernetes-list-map-keys'],
  ...['x-kubernetes-map-type', 'x-kubernetes-validations'],
]);

const formats: Readonly<Record<string, readonly string[]>> = { string: ['date-time'], integer: ['int32', 'int64'] };

const isInt32 = (value: number): boolean => value >= -(2 ** 31) && value < 2 ** 31;

/** A compiled schema. */
interface Node {
  readonly schema: StructuralSchema;
  readonly properties: ReadonlyMap<string, Node>;
  /** The schema of `additionalProperties`. */
  readonly values: Node | undefined;
  readonly items: Node | undefined;
  readonly pattern: RE2JS | undefined;
  readonly rules: readonly CompiledRule[];
  /** Whether this schema or a nested one has rules. */
  readonly hasRules: boolean;
}

const childOf = (node: Node | undefined, name: string): Node | undefined => node?.properties.get(name) ?? node?.values;

/** @throws NotSimulatedError for a schema that this strategy does not support, or supports only approximately. */
function compile(schema: StructuralSchema, path: string, compiler: RuleCompiler): Node {
  const refuse = (what: string): never => {
    throw new NotSimulatedError(`${what} in the schema of ${path || 'the object'}`);
  };
  const { type, format, minimum = 0, maximum = 0 } = schema;
  for (const keyword of Object.keys(schema)) if (!keywords.has(keyword)) refuse(keyword);
  if (format !== undefined && !formats[type ?? '']?.includes(format)) refuse(`the format ${format}`);
  const isBound = (bound: number): boolean => Number.isSafeInteger(bound) && (format !== 'int32' || isInt32(bound));
  if (type === 'integer' && !(isBound(minimum) && isBound(maximum))) refuse('a bound that is no such integer');
  if (schema.enum?.some((value) => typeof value === 'object')) refuse('an enum of objects');
  if (typeof schema.additionalProperties === 'boolean') refuse('additionalProperties without a schema');
  const named = Object.entries(schema.properties ?? {});
  const properties = new Map(named.map(([name, each]) => [name, compile(each, `${path}.${name}`, compiler)]));
  const values = schema.additionalProperties && compile(schema.additionalProperties, `${path}.*`, compiler);
  const items = schema.items && compile(schema.items, `${path}[]`, compiler);
  const rules = (schema['x-kubernetes-validations'] ?? []).map((rule) => compiler.compile(rule, path));
  return {
    schema,
    properties,
    values,
    items,
    pattern: schema.pattern === undefined ? undefined : RE2JS.compile(schema.pattern),
    rules,
    hasRules: rules.length > 0 || [...properties.values(), values, items].some((node) => node?.hasRules),
  };
}

/** Adds the members that rules of the object may read even if its schema does not have them. */
function withObjectMeta(schema: StructuralSchema): StructuralSchema {
  const text = { type: 'string' };
  const { metadata } = schema.properties ?? {};
  const named = {
    ...metadata,
    type: 'object',
    properties: { name: text, generateName: text, ...metadata?.properties },
  };
  return { ...schema, properties: { apiVersion: text, kind: text, ...schema.properties, metadata: named } };
}

/**
 * What the API server does to the objects of a custom kind. It prunes, fills in defaults, and validates by the schema,
 * with CEL rules and ratcheting (a change may keep an invalid value where the server accepts that). Sources:
 * k8s.io/apiextensions-apiserver (pkg/registry/customresource, pkg/apiserver/schema), k8s.io/kube-openapi
 * (pkg/validation/validate) and k8s.io/apimachinery of 1.36.
 *
 * Differences from the API server:
 *
 * - The errors of an object's properties are in the order of the schema. The server's order is random.
 * - The definition is assumed to be valid, so CEL rules are not type-checked. Their cost is not limited.
 * - Errors of the metadata are missing. The server lists them together with those of the schema.
 * - Go uses an older version of Unicode than JavaScript. In Go, characters that are newer than that version match no
 *   class of a pattern, and messages escape them.
 *
 * Its methods throw {@link NotSimulatedError} for an integer that JSON.parse may have rounded, for a rule that reads
 * null or a time or fails for a reason other than a missing key, and for values of another type in the scale
 * subresource.
 *
 * @param definition must have the version of the kind.
 * @throws NotSimulatedError for a keyword, a format or a CEL function whose effect is unknown.
 */
export function customStrategy(kind: Kind, definition: CustomResourceDefinitionManifest): Strategy {
  const version = definition.spec.versions.find(({ name }) => name === kind.version);
  const schema = version?.schema?.openAPIV3Schema as StructuralSchema | undefined;
  if (schema === undefined) throw new NotSimulatedError(`${kind.kind} without a schema for ${kind.version}`);
  if (definition.spec.conversion !== undefined) throw new NotSimulatedError(`${kind.kind} with a conversion`);
  const compiler = new RuleCompiler();
  const root = compile(withObjectMeta(schema), '', compiler);
  const hasStatus = version?.subresources?.status !== undefined;
  const scale = version?.subresources?.scale;

  const validate = (object: StoredObject, errors: FieldError[], old: StoredObject | undefined): StoredObject => {
    // This is the server's order.
    const correlation = old && new Correlation(root, object, old);
    if (old === undefined || listErrors(root, old, '').length === 0) errors.push(...listErrors(root, object, ''));
    if (root.hasRules) {
      const isBlocked = errors.some(({ reason }) => blocking.has(reason));
      errors.push(...(isBlocked ? [rulesNotChecked] : ruleErrors(compiler, root, object, old, '', correlation)));
    }
    if (errors.length > 0) throw invalid(kind, object.metadata.name, errors);
    return object;
  };

  const scaleErrors = (object: StoredObject, parts: readonly ('spec' | 'status')[]): readonly FieldError[] => {
    if (scale === undefined) return [];
    const { specReplicasPath, statusReplicasPath, labelSelectorPath } = scale;
    if (labelSelectorPath !== undefined) valueAt(object, labelSelectorPath, (value) => typeof value === 'string');
    return parts.flatMap((part) => replicaErrors(object, part === 'spec' ? specReplicasPath : statusReplicasPath));
  };

  return {
    kind,
    schema: schemaOfDefinition(schema),
    hasStatus,
    requiresVersion: true,
    ...(hasStatus && { resetFields: customResetFields }),
    decode: (object) => {
      const { apiVersion, kind: name, metadata, ...rest } = object;
      return { apiVersion, kind: name, metadata, ...(decoded(rest, root) as JsonObject) };
    },
    create: ({ status, ...rest }) => {
      const object: StoredObject = {
        ...(rest as StoredObject),
        ...(!hasStatus && status !== undefined && { status }),
        metadata: { ...(rest as StoredObject).metadata, generation: 1 },
      };
      return validate(object, [...schemaErrors(root, object), ...scaleErrors(object, ['spec', 'status'])], undefined);
    },
    update: (object, old, subresource) => {
      if (subresource === 'status') {
        const changed = withStatus(
          { ...old, metadata: withManagedFields(old.metadata, object.metadata) },
          object.status,
        );
        const correlation = new Correlation(root, changed, old).child('status');
        const node = root.properties.get('status');
        const { status } = changed;
        const errors = status !== undefined && node ? schemaErrors(node, status, correlation, 'status') : [];
        return validate(changed, [...errors, ...scaleErrors(changed, ['status'])], old);
      }
      const kept = hasStatus ? withStatus(object, old.status) : object;
      const generation = (old.metadata.generation ?? 0) + (isEqualApartFromMetadata(kept, old) ? 0 : 1);
      const changed: StoredObject = { ...kept, metadata: { ...kept.metadata, generation } };
      const errors = schemaErrors(root, changed, new Correlation(root, changed, old));
      return validate(changed, [...errors, ...scaleErrors(changed, ['spec', 'status'])], old);
    },
  };
}

/** Rules run only on an object without such errors. */
const blocking: ReadonlySet<FieldError['reason']> = new Set([
  'FieldValueNotSupported',
  'FieldValueRequired',
  'FieldValueTooLong',
  'FieldValueTooMany',
  'FieldValueTypeInvalid',
]);

const rulesNotChecked = fieldValueError(
  'FieldValueInvalid',
  '<nil>',
  null,
  'some validation rules were not checked because the object was invalid; ' +
    'correct the existing errors to complete validation',
);

function withStatus({ status: _, ...rest }: StoredObject, status: unknown): StoredObject {
  return (status === undefined ? rest : { ...rest, status }) as StoredObject;
}

function withManagedFields({ managedFields: _, ...rest }: StoredMetadata, { managedFields }: StoredMetadata) {
  return managedFields === undefined ? rest : { ...rest, managedFields };
}

function isEqualApartFromMetadata(one: StoredObject, other: StoredObject): boolean {
  return isDeepStrictEqual({ ...one, metadata: undefined }, { ...other, metadata: undefined });
}

/** Prunes unknown fields, removes nulls that the schema does not allow, and fills in defaults. */
function decoded(value: unknown, node: Node | undefined): unknown {
  if (Array.isArray(value)) return value.map((each) => decoded(withDefault(each, node?.items), node?.items));
  if (!isObject(value)) {
    if (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value))
      throw new NotSimulatedError(`the integer ${value}, which JSON.parse may have rounded`);
    return value;
  }
  const keepsUnknown = node?.schema['x-kubernetes-preserve-unknown-fields'] === true;
  const entries = Object.entries(value).flatMap(([name, each]): [string, unknown][] => {
    const child = childOf(node, name);
    if (child === undefined) return keepsUnknown ? [[name, each]] : [];
    const present = withDefault(each, child);
    return present === null && child.schema.nullable !== true ? [] : [[name, decoded(present, child)]];
  });
  for (const [name, child] of node?.properties ?? [])
    if (child.schema.default !== undefined && !Object.hasOwn(value, name))
      entries.push([name, decoded(child.schema.default, child)]);
  return Object.fromEntries(entries);
}

const withDefault = (value: unknown, node: Node | undefined): unknown =>
  value === null && node !== undefined && node.schema.nullable !== true ? (node.schema.default ?? null) : value;

/** A value and its previous value, for ratcheting (k8s.io/apiserver/pkg/cel/common, CorrelatedObject). */
class Correlation {
  readonly value: unknown;
  readonly #old: unknown;
  readonly #node: Node;

  constructor(node: Node, value: unknown, old: unknown) {
    this.#node = node;
    this.value = value;
    this.#old = old;
  }

  /** Undefined for a child that has no old value, or that neither a name nor the keys of a list identify. */
  child(key: string | number): Correlation | undefined {
    const [value, old, node] = [this.value, this.#old, this.#node];
    if (typeof key === 'number') {
      if (!Array.isArray(value) || !Array.isArray(old) || node.items === undefined) return undefined;
      const item = oldItem(node, old, value[key]);
      return item === undefined ? undefined : new Correlation(node.items, value[key], item);
    }
    const child = childOf(node, key);
    if (child === undefined || !isObject(value) || !isObject(old)) return undefined;
    if (!Object.hasOwn(value, key) || !Object.hasOwn(old, key)) return undefined;
    return new Correlation(child, value[key], old[key]);
  }

  /** Compares as the server does: an object with an unknown field never counts as unchanged. */
  isUnchanged(): boolean {
    const [value, old] = [this.value, this.#old];
    if (Array.isArray(value) && Array.isArray(old)) {
      if (value.length !== old.length) return false;
      const isMap = this.#node.schema['x-kubernetes-list-type'] === 'map';
      if (!isMap) return isDeepStrictEqual(value, old);
      return value.every((_, index) => this.child(index)?.isUnchanged() === true);
    }
    if (!isObject(value) || !isObject(old)) return value === old;
    const names = Object.keys(value);
    if (names.length !== Object.keys(old).length) return false;
    return names.every((name) => this.child(name)?.isUnchanged() === true);
  }
}

/** The item of the old list with the same keys. */
function oldItem({ schema }: Node, old: readonly unknown[], item: unknown): unknown {
  const keys = schema['x-kubernetes-list-map-keys'] ?? [];
  if (schema['x-kubernetes-list-type'] !== 'map' || !isObject(item)) return undefined;
  const isScalar = (value: unknown): boolean => value !== undefined && typeof value !== 'object';
  if (!keys.every((key) => isScalar(getOwn(item, key)))) return undefined;
  return old.find((each) => isObject(each) && keys.every((key) => getOwn(each, key) === getOwn(item, key)));
}

/**
 * Returns the errors that the schema finds in a value.
 *
 * @param parent the field of the value, for the status. The errors name this field, but their texts do not.
 */
function schemaErrors(root: Node, value: unknown, correlation?: Correlation, parent?: string): FieldError[] {
  const fieldOf = (path: string): string => {
    const name = path.replace(/^\./, '');
    return name === '' ? (parent ?? '<nil>') : parent === undefined ? name : `${parent}.${name}`;
  };

  const child = (node: Node, each: unknown, path: string, key: string | number, from?: Correlation): FieldError[] => {
    const next = from?.child(key);
    const errors = check(node, each, path, next);
    return errors.length > 0 && next?.isUnchanged() ? [] : errors;
  };

  const check = (node: Node, value: unknown, path: string, from?: Correlation): FieldError[] => {
    const { schema, properties, values, items, pattern } = node;
    const field = fieldOf(path);
    const errors: FieldError[] = [];
    const report = (detail: string, shown: unknown = value): void => {
      errors.push(fieldValueError('FieldValueInvalid', field, shown, `${path} in body should ${detail}`));
    };
    const reportType = (expected: string, actual: string): void => {
      const detail = `${path} in body must be of type ${expected}: ${quote(actual)}`;
      errors.push(fieldValueError('FieldValueTypeInvalid', field, actual, detail));
    };

    const types = schema['x-kubernetes-int-or-string'] ? ['integer', 'string'] : schema.type ? [schema.type] : [];
    const actual = typeOf(value);
    const isOfType = types.includes(actual) || (actual === 'integer' && types.includes('number'));
    if (value === null) {
      if (types.length > 0 && !schema.nullable) reportType(types.join(','), 'null');
    } else if (types.length > 0 && !isOfType) {
      // The server checks the format only of texts, and treats a list as a text.
      const isListForText = actual === 'array' && schema.format !== undefined && schema.type === 'string';
      const isNamedByFormat = schema.format !== undefined && actual !== 'string' && actual !== 'array';
      if (isNamedByFormat) reportType(schema.format, goFormats[actual] ?? '');
      else if (!isListForText) reportType(types.join(','), actual);
    }

    if (typeof value === 'string') {
      const { minLength = 0, maxLength = Number.POSITIVE_INFINITY } = schema;
      const { length } = value.length <= maxLength && value.length >= 2 * minLength ? value : [...value];
      if (length > maxLength) {
        const unit = maxLength === 1 ? 'byte' : 'bytes';
        errors.push(fieldError('FieldValueTooLong', field, `may not be more than ${maxLength} ${unit}`));
      } else if (length < minLength) report(`be at least ${minLength} chars long`);
      else if (pattern?.test(value) === false) report(`match '${schema.pattern}'`);
      if (schema.format === 'date-time' && !isDateTime(value)) reportType('date-time', value);
    }

    if (typeof value === 'number') {
      const { format, minimum, maximum, exclusiveMinimum = false, exclusiveMaximum = false } = schema;
      const isOutOfRange = format === 'int32' && !isInt32(value);
      if (schema.type === 'integer' && (actual === 'number' || isOutOfRange)) {
        const expected = format === undefined ? 'integer (default format)' : `integer with format ${format}`;
        const detail = `Checked value must be of type ${expected} in ${path}`;
        errors.push(fieldValueError('FieldValueInvalid', parent ?? '<nil>', '', detail));
      }
      // The server compares an integer with the integer part of a bound.
      const bound = (limit: number): number => (actual === 'integer' ? Math.trunc(limit) : limit);
      if (minimum !== undefined) {
        const limit = bound(minimum);
        if (exclusiveMinimum ? value <= limit : value < limit)
          report(`be greater than ${exclusiveMinimum ? '' : 'or equal to '}${printNumber(limit)}`);
      }
      if (maximum !== undefined) {
        const limit = bound(maximum);
        if (exclusiveMaximum ? value >= limit : value > limit)
          report(`be less than ${exclusiveMaximum ? '' : 'or equal to '}${printNumber(limit)}`);
      }
    }

    if (Array.isArray(value)) {
      const { minItems = 0, maxItems = Number.POSITIVE_INFINITY } = schema;
      if (items !== undefined)
        errors.push(...value.flatMap((each, index) => child(items, each, `${path}[${index}]`, index, from)));
      if (value.length < minItems) report(`have at least ${minItems} items`, value.length);
      if (value.length > maxItems) errors.push(tooMany(field, value.length, maxItems));
    }

    if (schema.enum !== undefined && !schema.enum.some((each) => isEnumValue(value, each))) {
      const supported = schema.enum.map((each) => quote(typeof each === 'string' ? each : toGoJson(each))).join(', ');
      errors.push(fieldValueError('FieldValueNotSupported', field, value, `supported values: ${supported}`));
    }

    if (isObject(value)) {
      const names = Object.keys(value);
      const { minProperties = 0, maxProperties = Number.POSITIVE_INFINITY, required = [] } = schema;
      if (names.length < minProperties) report(`have at least ${minProperties} properties`, names.length);
      if (names.length > maxProperties) errors.push(tooMany(field, names.length, maxProperties));
      if (values !== undefined)
        for (const name of names) errors.push(...child(values, value[name], `${path}.${name}`, name, from));
      for (const [name, property] of properties) {
        if (!Object.hasOwn(value, name)) continue;
        const below = path === '' ? name : `${path}.${name}`;
        // The server never ratchets its checks of the object's type.
        const isTypeMeta = path === '' && (name === 'kind' || name === 'apiVersion');
        errors.push(...child(property, value[name], below, name, isTypeMeta ? undefined : from));
      }
      for (const name of required)
        if (!Object.hasOwn(value, name)) errors.push(fieldError('FieldValueRequired', fieldOf(`${path}.${name}`)));
    }
    return errors;
  };

  const errors = check(root, value, '', correlation);
  return errors.length > 0 && correlation?.isUnchanged() ? [] : errors;
}

const tooMany = (field: string, actual: number, max: number): FieldError =>
  fieldValueError('FieldValueTooMany', field, actual, `must have at most ${max} ${max === 1 ? 'item' : 'items'}`);

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return typeof value;
}

const goFormats: Readonly<Record<string, string>> = { integer: 'int64', number: 'float64' };

/**
 * The server converts a value to the type of the enum's value as Go does: an integer to a character, a fraction to an
 * integer.
 */
function isEnumValue(value: unknown, expected: unknown): boolean {
  if (typeof value === 'number' && typeof expected === 'number')
    return (Number.isInteger(expected) ? Math.trunc(value) : value) === expected;
  if (typeof value === 'number' && typeof expected === 'string')
    return (
      Number.isInteger(value) &&
      expected === (value >= 0 && value <= 0x10_ffff ? String.fromCodePoint(value) : '\ufffd')
    );
  return value === expected;
}

/** `IsDateTime` of k8s.io/kube-openapi/pkg/validation/strfmt. */
function isDateTime(text: string): boolean {
  const [date = '', time = ''] = text.toLowerCase().split('t');
  if (!/^\d{4}-\d\d-\d\d$/.test(date)) return false;
  const start = new Date(`${date}T00:00:00Z`);
  if (Number.isNaN(start.getTime()) || start.toISOString().slice(0, 10) !== date) return false;
  const [match, hours = '', minutes = '', seconds = ''] =
    /^(\d\d):(\d\d):(\d\d)([^\n]\d+)?(z|[+-]\d\d:\d\d)$/u.exec(time) ?? [];
  return match !== undefined && hours <= '23' && minutes <= '59' && seconds <= '59';
}

/**
 * The integer or text at a path such as `.spec.replicas`; undefined if there is none. @throws NotSimulatedError for
 * another value.
 */
function valueAt(object: StoredObject, path: string, isOfType: (value: unknown) => boolean): unknown {
  let value: unknown = object;
  for (const name of path.slice(1).split('.')) {
    if (value === null || value === undefined) return undefined;
    if (!isObject(value)) throw new NotSimulatedError(`${path} in ${toGoJson(value)}`);
    value = getOwn(value, name);
  }
  if (value !== undefined && !isOfType(value)) throw new NotSimulatedError(`${toGoJson(value)} at ${path}`);
  return value;
}

/** The errors that the scale subresource finds in the replicas, in addition to those of the schema. */
function replicaErrors(object: StoredObject, path: string): readonly FieldError[] {
  const replicas = Number(valueAt(object, path, Number.isInteger) ?? 0);
  if (replicas < 0) return [fieldValueError('FieldValueInvalid', path, replicas, 'should be a non-negative integer')];
  if (isInt32(replicas)) return [];
  return [fieldValueError('FieldValueInvalid', path, replicas, 'should be less than or equal to 2147483647')];
}

/** Reports the duplicates in lists of the types set and map. */
function listErrors(node: Node, value: unknown, path: string): readonly FieldError[] {
  const { schema, properties, values, items } = node;
  if (Array.isArray(value)) {
    const type = schema['x-kubernetes-list-type'];
    const own = type === 'set' ? duplicates(value, path) : type === 'map' ? keyErrors(schema, value, path) : [];
    const below =
      items === undefined ? [] : value.flatMap((each, index) => listErrors(items, each, `${path}[${index}]`));
    return [...own, ...below];
  }
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([name, each]) => {
    const property = properties.get(name);
    return [
      ...(values === undefined ? [] : listErrors(values, each, `${path}[${name}]`)),
      ...(property === undefined ? [] : listErrors(property, each, path === '' ? name : `${path}.${name}`)),
    ];
  });
}

function keyErrors(schema: StructuralSchema, items: readonly unknown[], path: string): readonly FieldError[] {
  const invalidItem = items.findIndex((item) => item !== null && !isObject(item));
  if (invalidItem >= 0) {
    const detail = 'must be an object for an array of list-type map';
    return [fieldValueError('FieldValueInvalid', `${path}[${invalidItem}]`, items[invalidItem], detail)];
  }
  const names = schema['x-kubernetes-list-map-keys'] ?? [];
  const keys = items.map((item) => {
    const present = names.filter((name) => isObject(item) && Object.hasOwn(item, name));
    return Object.fromEntries(present.map((name) => [name, getMember(item, name)]));
  });
  return duplicates(keys, path);
}

/** Reports the second of equal values. */
function duplicates(values: readonly unknown[], path: string): readonly FieldError[] {
  const counts = new Map<string, number>();
  return values.flatMap((value, index) => {
    const text = toGoJson(value);
    const count = (counts.get(text) ?? 0) + 1;
    counts.set(text, count);
    return count === 2 ? [fieldValueError('FieldValueDuplicate', `${path}[${index}]`, value)] : [];
  });
}

/**
 * Returns the errors that the CEL rules find in a value.
 *
 * @param nearest the nearest ancestor that has an old value to compare with, if this value has none
 */
function ruleErrors(
  compiler: RuleCompiler,
  node: Node,
  value: unknown,
  old: unknown,
  path: string,
  correlation: Correlation | undefined,
  nearest?: Correlation,
): readonly FieldError[] {
  if (!node.hasRules || value === null || value === undefined) return [];
  const hasOld = old !== null && old !== undefined;
  const { schema, properties, values, items } = node;
  const isCompound = schema.type === 'object' || schema.type === 'array';
  const [self, oldSelf] = [value, hasOld ? old : null].map((each) =>
    node.rules.length === 0 || each === null ? undefined : compiler.convert(each, node),
  );
  const ofRule = (rule: CompiledRule): readonly FieldError[] => {
    if (rule.usesOldSelf && !hasOld) return [];
    const failure = self === undefined ? undefined : rule.evaluate(self, oldSelf);
    if (failure === undefined) return [];
    const { detail, isError } = failure;
    if (isError) return [fieldValueError('FieldValueInvalid', path || '<nil>', schema.type ?? '', detail)];
    if (!rule.usesOldSelf && (correlation ?? nearest)?.isUnchanged()) return [];
    const field = `${path}${rule.fieldPath}`.replace(/^\./, '') || '<nil>';
    if (rule.reason === 'FieldValueDuplicate')
      return [isCompound ? fieldError(rule.reason, field) : fieldValueError(rule.reason, field, value)];
    const hasNoValue = isCompound || rule.reason !== 'FieldValueInvalid';
    return [hasNoValue ? fieldError(rule.reason, field, detail) : fieldValueError(rule.reason, field, value, detail)];
  };
  const below = (child: Node, each: unknown, before: unknown, at: string, key: string | number) =>
    ruleErrors(compiler, child, each, before, at, correlation?.child(key), correlation ?? nearest);
  const errors = node.rules.flatMap(ofRule);
  if (Array.isArray(value)) {
    if (items === undefined) return errors;
    const before = Array.isArray(old) ? old : [];
    return [
      ...errors,
      ...value.flatMap((each, index) => below(items, each, oldItem(node, before, each), `${path}[${index}]`, index)),
    ];
  }
  if (!isObject(value)) return errors;
  const byName = Object.entries(value).flatMap(([name, each]) => {
    const property = properties.get(name);
    const before = getMember(old, name);
    return [
      ...(values === undefined ? [] : below(values, each, before, `${path}[${name}]`, name)),
      ...(property === undefined ? [] : below(property, each, before, path === '' ? name : `${path}.${name}`, name)),
    ];
  });
  return [...errors, ...byName];
}
