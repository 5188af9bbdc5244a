import type { ReadonlyDeep } from 'type-fest';
import type { Static, TArray, TObject, TOptional, TProperties, TRecord, TSchema } from 'typebox';
import * as Type from 'typebox';
import {
  type Condition,
  maxConditions,
  maxMessageLength,
  maxReasonLength,
  maxTimeLength,
  maxTypeLength,
} from './condition.ts';
import type { Kind } from './kind.ts';
import type { KubeObject, ObjectMeta, sentSpec } from './object.ts';

/** The status fields of the API conventions. {@link defineKind} adds them to each kind's status. */
export interface StandardStatus {
  readonly observedGeneration?: number;
  readonly conditions?: readonly Condition[];
}

/**
 * An object of a kind declared with {@link defineKind}. `Sent` is the spec that a client may send: fields with a
 * default are optional.
 */
export interface CustomObject<Spec, Status, Sent = Spec> extends KubeObject {
  readonly metadata: ObjectMeta & { readonly generation: number };
  readonly spec: ReadonlyDeep<Spec>;
  readonly status?: ReadonlyDeep<Status> & StandardStatus;
  readonly [sentSpec]?: ReadonlyDeep<Sent>;
}

/** The schema of what a client may send: a property with a default is optional. */
export type SentSchema<S extends TSchema> =
  S extends TObject<infer P>
    ? TObject<{
        [K in keyof P]: P[K] extends TOptional | { readonly default: unknown }
          ? TOptional<SentSchema<P[K]>>
          : SentSchema<P[K]>;
      }>
    : S extends TArray<infer I>
      ? TArray<SentSchema<I>>
      : S extends TRecord<infer K, infer V>
        ? TRecord<K, SentSchema<V>>
        : S;

/** A column of `kubectl get`. */
export interface PrinterColumn {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'number' | 'boolean' | 'date';
  /** The path of the value: `.spec.message`. */
  readonly jsonPath: string;
  readonly description?: string;
  /** Columns with a priority above 0 appear only with `-o wide`. Default 0. */
  readonly priority?: number;
}

/** The paths of the replica counts, which `kubectl scale` and autoscalers read and write. */
export interface ScaleSubresource {
  /** `.spec.replicas` */
  readonly specReplicasPath: string;
  /** `.status.replicas` */
  readonly statusReplicasPath: string;
  /** `.status.selector`: the label selector of the pods, in the form that a list takes. Autoscalers need it. */
  readonly labelSelectorPath?: string;
}

/** A CEL rule, as in `x-kubernetes-validations`. */
export interface ValidationRule {
  /** True for a valid object: `self.metadata.name.size() <= 63`. */
  readonly rule: string;
  /** What is wrong otherwise; it names the field. */
  readonly message: string;
}

/** The definition of a kind, for {@link defineKind}. */
export interface KindDefinition<S extends TProperties, U extends TProperties> {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  /** Default: `kind` in lower case. */
  readonly singular?: string;
  /** Short names for kubectl: `ec`. */
  readonly shortNames?: readonly string[];
  /** Categories for `kubectl get`: `all`. */
  readonly categories?: readonly string[];
  /** Default: `Namespaced`. */
  readonly scope?: Kind['scope'];
  /** The purpose of the kind, which `kubectl explain` prints first. */
  readonly description: string;
  readonly spec: TObject<S>;
  /**
   * The kind's own status fields; `observedGeneration` and `conditions` are added. All fields are optional, even
   * without `Type.Optional`, because not every outcome sets them.
   */
  readonly status: TObject<U>;
  /** What `kubectl get` prints beside the name. Default: the age. */
  readonly printerColumns?: readonly PrinterColumn[];
  /**
   * CEL rules of the whole object, which can read `self.metadata.name`. Put the rules of a field into the options of
   * the field's schema.
   */
  readonly validations?: readonly ValidationRule[];
  /** Adds the scale subresource. Default: none. */
  readonly scale?: ScaleSubresource;
}

/** A version of a kind beside the stored one, as {@link withVersion} adds it. */
export interface KindVersion {
  readonly kind: CustomKind;
  readonly isServed: boolean;
  /** Undefined: the version is not deprecated. */
  readonly deprecated: string | undefined;
  /** Undefined: the schemas are equal, so that only `apiVersion` changes. */
  readonly conversion:
    | {
        readonly toStored: (object: KubeObject) => object;
        readonly fromStored: (object: KubeObject) => object;
      }
    | undefined;
}

/** A kind with its definition, from which {@link customResourceDefinition} builds the CRD. */
export interface CustomKind<T extends KubeObject = KubeObject> extends Kind<T> {
  readonly definition: KindDefinition<TProperties, TProperties>;
  /** The other versions of the kind: this one is stored, and what reconcilers see. Default: none. */
  readonly versions?: readonly KindVersion[];
}

/** True for a kind that {@link defineKind} declared. */
export const isCustomKind = (kind: Kind): kind is CustomKind => 'definition' in kind;

const conditionSchema = Type.Object({
  type: Type.String({ description: 'The type of the condition: Ready and others.', maxLength: maxTypeLength }),
  status: Type.Enum(['True', 'False', 'Unknown'], { description: 'Whether the condition is true.' }),
  reason: Type.String({ description: 'One CamelCase word, for programs.', maxLength: maxReasonLength }),
  message: Type.String({ description: 'An explanation, for people.', maxLength: maxMessageLength }),
  lastTransitionTime: Type.String({
    format: 'date-time',
    maxLength: maxTimeLength,
    description: 'The time of the last change of the status.',
  }),
  observedGeneration: Type.Optional(
    Type.Integer({
      format: 'int64',
      minimum: 0,
      description: 'The generation of the object that the condition describes.',
    }),
  ),
});

const standardStatus = {
  observedGeneration: Type.Optional(
    Type.Integer({
      format: 'int64',
      minimum: 0,
      description: 'The generation of the object that the status describes.',
    }),
  ),
  conditions: Type.Optional(
    Type.Array(conditionSchema, {
      maxItems: maxConditions,
      description: 'The conditions of the object, one for each type.',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['type'],
    }),
  ),
};

/**
 * Declares a kind once: its TypeScript type, its CustomResourceDefinition and its printer columns derive from one
 * definition. Write schemas with TypeBox, which produces JSON Schema. Put `x-kubernetes-*` keys and CEL rules into the
 * options of the field that they apply to.
 *
 * Write a default as `Type.With(Type.Integer({ minimum: 0 }), { default: 1 })`. The API server fills it in, so a stored
 * object has the field, and a `Manifest` may lack it. A `default` among the options of `Type.Integer` works likewise,
 * but its type does not show that a manifest may lack the field.
 *
 * @example
 * export const Echo = defineKind({
 *   group: 'mmontes.io', version: 'v1alpha1', kind: 'Echo', plural: 'echos', description: 'Prints a message once.',
 *   spec: Type.Object({ message: Type.String({ minLength: 1 }) }),
 *   status: Type.Object({ phase: Type.Optional(Type.String()) }),
 *   printerColumns: [{ name: 'Phase', type: 'string', jsonPath: '.status.phase' }],
 * });
 */
export function defineKind<S extends TProperties, U extends TProperties>(
  definition: KindDefinition<S, U>,
): CustomKind<CustomObject<Static<TObject<S>>, Partial<Static<TObject<U>>>, Static<SentSchema<TObject<S>>>>> {
  const { group, version, kind, plural, scope = 'Namespaced' } = definition;
  const own = Object.entries(definition.status.properties).map(([name, schema]) => [name, Type.Optional(schema)]);
  const status = Type.Object({ ...Object.fromEntries(own), ...standardStatus }, { ...withoutShape(definition.status) });
  return { group, version, kind, plural, scope, definition: { ...definition, status } };
}

/** Returns an object schema's options (description, CEL rules) without the keys that TypeBox computes. */
function withoutShape(schema: TObject): Record<string, unknown> {
  const {
    properties: _properties,
    required: _required,
    type: _type,
    ...options
  } = schema as TObject & {
    required?: unknown;
  };
  return options;
}

/**
 * Returns the path of the first required field in `spec` that an object lacks (`spec.message`), undefined if there is
 * none. The API server refuses such an object, but the object may have been stored under an older
 * CustomResourceDefinition.
 *
 * @param object an object of this kind. Despite its type it may lack required fields.
 */
export function missingField({ definition }: CustomKind, object: KubeObject): string | undefined {
  return missingIn(definition.spec, (object as { readonly spec?: unknown }).spec, 'spec');
}

/** The part of an object schema that {@link missingIn} reads; both members are absent in other schemas. */
interface ObjectShape {
  readonly required?: readonly string[];
  readonly properties?: TProperties;
}

function missingIn(schema: TSchema | undefined, value: unknown, path: string): string | undefined {
  const { required = [], properties = {} } = (schema ?? {}) as ObjectShape;
  if (value === undefined || value === null) return required.length === 0 ? path : missingIn(schema, {}, path);
  if (typeof value !== 'object') return undefined;
  const fields = value as Readonly<Record<string, unknown>>;
  const expected = Object.keys(properties).filter(
    (name) => required.includes(name) || (fields[name] ?? undefined) !== undefined,
  );
  for (const name of expected) {
    const missing = missingIn(properties[name], fields[name], `${path}.${name}`);
    if (missing !== undefined) return missing;
  }
  return undefined;
}

/**
 * Returns the first problem of an object's `spec`, for a message: `spec.message is missing`, or `spec.replicas is -2,
 * at least 0 is required`. Undefined if the spec has each required field, and each value is of its type and within its
 * bounds, enum and pattern.
 *
 * Does not check formats and CEL rules. Does not check a pattern that JavaScript cannot compile, or interprets
 * differently from the API server. The API server refuses such an object, but the object may have been stored under an
 * older CustomResourceDefinition.
 *
 * @param object an object of this kind. Despite its type it may lack required fields.
 */
export function specProblem(kind: CustomKind, object: KubeObject): string | undefined {
  const missing = missingField(kind, object);
  if (missing !== undefined) return `${missing} is missing`;
  return problemIn(kind.definition.spec, (object as { readonly spec?: unknown }).spec, 'spec');
}

/** The parts of a schema that {@link problemIn} reads. TypeBox writes a map as `patternProperties` with one pattern. */
interface CheckedShape {
  readonly type?: string;
  readonly 'x-kubernetes-int-or-string'?: boolean;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly TSchema[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly properties?: Readonly<Record<string, TSchema>>;
  readonly patternProperties?: Readonly<Record<string, TSchema>>;
  readonly items?: TSchema;
}

/** The maximum length of a key in a path, and of a value in a message. Keys of a map have no bound. */
const maxShown = 100;

/** Descends only as deep as the schema does, and not into a list or map that exceeds its bound. */
function problemIn(schema: TSchema | undefined, value: unknown, path: string): string | undefined {
  // The API server drops a null where the schema does not allow it.
  if (schema === undefined || value === undefined || value === null) return undefined;
  const shape = schema as CheckedShape;
  const { anyOf } = shape;
  if (anyOf !== undefined) {
    const problems = anyOf.map((branch) => problemIn(branch, value, path));
    return problems.includes(undefined) ? undefined : problems[0];
  }
  const allowed = 'const' in shape ? [shape.const] : shape.enum;
  if (allowed !== undefined)
    return allowed.includes(value)
      ? undefined
      : `${path} is ${formatValue(value)}, must be ${allowed.map(formatValue).join(' or ')}`;
  if (!isOfType(shape, value)) return `${path} is ${formatValue(value)}, must be ${typeOf(shape)}`;
  if (typeof value === 'number') return problemOfNumber(shape, value, path);
  if (typeof value === 'string') return problemOfText(shape, value, path);
  if (Array.isArray(value)) {
    return (
      problemOfCount(value.length, shape.minItems, shape.maxItems, `${path} has ${value.length} items`) ??
      firstOf(value, (item, index) => problemIn(shape.items, item, `${path}[${index}]`))
    );
  }
  if (typeof value !== 'object') return undefined;
  const { properties = {}, patternProperties = {} } = shape;
  const fields = Object.entries(value);
  const [ofEach] = Object.values(patternProperties);
  return (
    problemOfCount(fields.length, shape.minProperties, shape.maxProperties, `${path} has ${fields.length} entries`) ??
    firstOf(fields, ([name, field]) =>
      problemIn(
        Object.hasOwn(properties, name) ? properties[name] : ofEach,
        field,
        `${path}.${name.slice(0, maxShown)}`,
      ),
    )
  );
}

const typeOf = (shape: CheckedShape): string =>
  shape['x-kubernetes-int-or-string'] === true ? 'integer or string' : (shape.type ?? '');

function isOfType(shape: CheckedShape, value: unknown): boolean {
  switch (typeOf(shape)) {
    case 'integer or string':
      return typeof value === 'string' || Number.isInteger(value);
    case 'integer':
      return Number.isInteger(value);
    case 'array':
      return Array.isArray(value);
    case 'object':
      return typeof value === 'object' && !Array.isArray(value);
    case 'string':
    case 'number':
    case 'boolean':
      return typeof value === shape.type;
    default:
      return true;
  }
}

/**
 * Whether a response may have contained another integer. The API server stores 64 bits exactly, but `JSON.parse` rounds
 * integers beyond 2^53.
 */
export const mayBeRounded = (value: number): boolean => Number.isInteger(value) && !Number.isSafeInteger(value);

function problemOfNumber(shape: CheckedShape, value: number, path: string): string | undefined {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = shape;
  if (mayBeRounded(value))
    return (
      `${path} is an integer beyond ±(2^53-1), which may have been rounded: ` +
      'use a smaller one, or for a quantity a string'
    );
  if (maximum !== undefined && value > maximum) return `${path} is ${value}, at most ${maximum} is allowed`;
  if (minimum !== undefined && value < minimum) return `${path} is ${value}, at least ${minimum} is required`;
  if (exclusiveMaximum !== undefined && value >= exclusiveMaximum)
    return `${path} is ${value}, less than ${exclusiveMaximum} is required`;
  if (exclusiveMinimum !== undefined && value <= exclusiveMinimum)
    return `${path} is ${value}, more than ${exclusiveMinimum} is required`;
  return undefined;
}

function problemOfText({ minLength, maxLength, pattern }: CheckedShape, value: string, path: string) {
  const count = charactersOf(value, minLength, maxLength);
  const excess = problemOfCount(count, minLength, maxLength, `${path} has ${count} characters`);
  if (excess !== undefined || pattern === undefined) return excess;
  return patternOf(pattern)?.test(value) === false
    ? `${path} is ${formatValue(value)}, must match ${pattern}`
    : undefined;
}

const problemOfCount = (count: number, min = 0, max = Number.POSITIVE_INFINITY, what: string): string | undefined => {
  if (count > max) return `${what}, at most ${max} are allowed`;
  return count < min ? `${what}, at least ${min} ${min === 1 ? 'is' : 'are'} required` : undefined;
};

/** Compiles a pattern. The API server uses the syntax of RE2. */
function patternOf(pattern: string): RegExp | undefined {
  // In RE2, white space is only that of ASCII, and a dot matches everything but a line feed.
  if (/\\[sS]/.test(pattern) || pattern.replace(/\\.|\[(?:\\.|[^\]\\])*\]/g, '').includes('.')) return undefined;
  try {
    return new RegExp(pattern, 'u');
  } catch {
    return undefined;
  }
}

/** Formats a value for a message. */
function formatValue(value: unknown): string {
  if (typeof value === 'object') return Array.isArray(value) ? 'a list' : 'an object';
  if (typeof value !== 'string' || value.length <= maxShown) return JSON.stringify(value);
  return `${JSON.stringify(value.slice(0, maxShown).toWellFormed())}…`;
}

/**
 * Counts characters as the API server does. Skips the count if the number of UTF-16 units already proves that the
 * bounds hold.
 */
function charactersOf(text: string, min = 0, max = Number.POSITIVE_INFINITY): number {
  // A character has one or two UTF-16 units.
  if (text.length <= max && text.length >= 2 * min) return text.length;
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

function firstOf<T>(items: readonly T[], find: (item: T, index: number) => string | undefined): string | undefined {
  for (const [index, item] of items.entries()) {
    const found = find(item, index);
    if (found !== undefined) return found;
  }
  return undefined;
}
