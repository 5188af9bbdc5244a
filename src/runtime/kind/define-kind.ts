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

/** An object of a kind declared with {@link defineKind}. `Sent` is the spec that a client may send: fields with a default are optional. */
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
   * The kind's own status fields; `observedGeneration` and `conditions` are added. All are optional, also without `Type.Optional`:
   * not every outcome sets them.
   */
  readonly status: TObject<U>;
  /** What `kubectl get` prints beside the name. Default: the age. */
  readonly printerColumns?: readonly PrinterColumn[];
  /** CEL rules of the whole object, which can read `self.metadata.name`. Put those of a field into the options of its schema. */
  readonly validations?: readonly ValidationRule[];
  /** Adds the scale subresource. Default: none. */
  readonly scale?: ScaleSubresource;
}

/** A kind with its definition, from which {@link customResourceDefinition} builds the CRD. */
export interface CustomKind<T extends KubeObject = KubeObject> extends Kind<T> {
  readonly definition: KindDefinition<TProperties, TProperties>;
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
 * Write a default as `Type.With(Type.Integer({ minimum: 0 }), { default: 1 })`. The API server fills it in, so a stored object has the field,
 * and a `Manifest` may lack it. A `default` among the options of `Type.Integer` works likewise, but its type does not show that a
 * manifest may lack the field.
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
 * Returns the path of the first required field in `spec` that an object lacks (`spec.message`), undefined if there is none.
 * The API server refuses such an object, but the object may have been stored under an older CustomResourceDefinition.
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
  const expected = Object.keys(properties).filter((name) => required.includes(name) || fields[name] !== undefined);
  for (const name of expected) {
    const missing = missingIn(properties[name], fields[name], `${path}.${name}`);
    if (missing !== undefined) return missing;
  }
  return undefined;
}

/**
 * Returns what is wrong with an object's `spec`, for a message: `spec.message is missing`, or `spec.message has 9000 characters, at most 4096
 * are allowed`. Undefined if it has each required field, and no string, list, map or number exceeds its maximum. Checks nothing else of the
 * schema.
 * The API server refuses such an object, but the object may have been stored under an older CustomResourceDefinition.
 *
 * @param object an object of this kind. Despite its type it may lack required fields.
 */
export function specProblem(kind: CustomKind, object: KubeObject): string | undefined {
  const missing = missingField(kind, object);
  if (missing !== undefined) return `${missing} is missing`;
  return excessIn(kind.definition.spec, (object as { readonly spec?: unknown }).spec, 'spec');
}

/** The parts of a schema that {@link excessIn} reads. TypeBox writes a map as `patternProperties` with one pattern. */
interface BoundedShape {
  readonly maximum?: number;
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly maxProperties?: number;
  readonly properties?: Readonly<Record<string, TSchema>>;
  readonly patternProperties?: Readonly<Record<string, TSchema>>;
  readonly items?: TSchema;
}

/** How much of a key a path shows. Nothing bounds the keys of a map. */
const maxNamedKey = 100;

/** Descends only as deep as the schema, and into no list or map that exceeds its bound. */
function excessIn(schema: TSchema | undefined, value: unknown, path: string): string | undefined {
  if (schema === undefined) return undefined;
  const { maximum, maxLength, maxItems, maxProperties } = schema as BoundedShape;
  const { properties = {}, patternProperties = {}, items } = schema as BoundedShape;
  const excess = (count: number, max = Number.POSITIVE_INFINITY, noun: string): string | undefined =>
    count > max ? `${path} has ${count} ${noun}, at most ${max} are allowed` : undefined;
  if (typeof value === 'number' && maximum !== undefined && value > maximum)
    return `${path} is ${value}, at most ${maximum} is allowed`;
  if (typeof value === 'string') return excess(charactersOf(value, maxLength), maxLength, 'characters');
  if (Array.isArray(value)) {
    return (
      excess(value.length, maxItems, 'items') ??
      firstOf(value, (item, index) => excessIn(items, item, `${path}[${index}]`))
    );
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const fields = Object.entries(value);
  const [ofEach] = Object.values(patternProperties);
  return (
    excess(fields.length, maxProperties, 'entries') ??
    firstOf(fields, ([name, field]) =>
      excessIn(
        Object.hasOwn(properties, name) ? properties[name] : ofEach,
        field,
        `${path}.${name.slice(0, maxNamedKey)}`,
      ),
    )
  );
}

/** Counts characters as the API server does, unless there are certainly not too many. */
function charactersOf(text: string, max = Number.POSITIVE_INFINITY): number {
  if (text.length <= max) return text.length;
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
