import type { ReadonlyDeep } from 'type-fest';
import type { Static, TObject, TProperties, TSchema } from 'typebox';
import * as Type from 'typebox';
import type { Condition } from './condition.ts';
import type { Kind } from './kind.ts';
import type { KubeObject, ObjectMeta } from './object.ts';

/** The part of every status that the API conventions ask for; {@link defineKind} adds it to each kind's own. */
export interface StandardStatus {
  readonly observedGeneration?: number;
  readonly conditions?: readonly Condition[];
}

/** An object of a kind declared by {@link defineKind}. */
export interface CustomObject<Spec, Status> extends KubeObject {
  readonly metadata: ObjectMeta & { readonly generation: number };
  readonly spec: ReadonlyDeep<Spec>;
  readonly status?: ReadonlyDeep<Status> & StandardStatus;
}

/** A column of `kubectl get`. */
export interface PrinterColumn {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'number' | 'boolean' | 'date';
  /** Where the value stands: `.spec.message`. */
  readonly jsonPath: string;
  readonly description?: string;
  /** Columns above 0 are shown by `-o wide` alone. Default: 0. */
  readonly priority?: number;
}

/** Where a kind says how many replicas it wants and has: `kubectl scale` and the autoscaler read and write them there. */
export interface ScaleSubresource {
  /** `.spec.replicas` */
  readonly specReplicasPath: string;
  /** `.status.replicas` */
  readonly statusReplicasPath: string;
  /** `.status.selector`: the label selector of the pods, as a list takes it. An autoscaler needs it. */
  readonly labelSelectorPath?: string;
}

/** What {@link defineKind} takes. */
export interface KindDefinition<S extends TProperties, U extends TProperties> {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  /** Default: `kind` in lower case. */
  readonly singular?: string;
  /** For kubectl: `ec`. */
  readonly shortNames?: readonly string[];
  /** Groups that `kubectl get` lists as one: `all`. */
  readonly categories?: readonly string[];
  /** Default: `Namespaced`. */
  readonly scope?: Kind['scope'];
  /** What the kind is for; `kubectl explain` opens with it. */
  readonly description: string;
  readonly spec: TObject<S>;
  /** The kind's own status fields; `observedGeneration` and `conditions` come by themselves. */
  readonly status: TObject<U>;
  readonly printerColumns: readonly PrinterColumn[];
  /** Gives the kind the subresource `scale`. Default: it has none. */
  readonly scale?: ScaleSubresource;
}

/** A kind with the definition it came from: enough to write its CustomResourceDefinition. */
export interface CustomKind<T extends KubeObject = KubeObject> extends Kind<T> {
  readonly definition: KindDefinition<TProperties, TProperties>;
}

const conditionSchema = Type.Object({
  type: Type.String({ description: 'The aspect of the state: Ready and others.', maxLength: 316 }),
  status: Type.Enum(['True', 'False', 'Unknown'], { description: 'Whether it holds.' }),
  reason: Type.String({ description: 'One CamelCase word that a program can act on.', maxLength: 1024 }),
  message: Type.String({ description: 'What a person can act on.', maxLength: 32_768 }),
  lastTransitionTime: Type.String({ format: 'date-time', description: 'When the status last changed.' }),
  observedGeneration: Type.Optional(
    Type.Integer({ format: 'int64', minimum: 0, description: 'The generation of the object that this was said of.' }),
  ),
});

const standardStatus = {
  observedGeneration: Type.Optional(
    Type.Integer({ format: 'int64', minimum: 0, description: 'The generation that the rest of the status speaks of.' }),
  ),
  conditions: Type.Optional(
    Type.Array(conditionSchema, {
      description: 'The state in the common form, one entry a type.',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['type'],
    }),
  ),
};

/**
 * Declares a kind once: its TypeScript type, its CustomResourceDefinition and its printer columns come from the same
 * lines. Schemas are TypeBox's, which are JSON Schema: `x-kubernetes-*` keys and CEL rules stand beside the field that
 * they guard.
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
): CustomKind<CustomObject<Static<TObject<S>>, Static<TObject<U>>>> {
  const { group, version, kind, plural, scope = 'Namespaced' } = definition;
  const status = Type.Object(
    { ...definition.status.properties, ...standardStatus },
    { ...withoutShape(definition.status) },
  );
  return { group, version, kind, plural, scope, definition: { ...definition, status } };
}

/** An object schema's options (description, rules), without what its properties determine. */
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
 * The first field that a kind requires in `spec` and an object lacks, as a path: `spec.message`. Undefined if none is missing.
 * The API server refuses such an object, but one may have been stored under an older definition.
 *
 * @param object of this kind. Its type promises what the schema requires, so it may lack what it promises.
 */
export function missingField({ definition }: CustomKind, object: KubeObject): string | undefined {
  return missingIn(definition.spec, (object as { readonly spec?: unknown }).spec, 'spec');
}

/** Of a schema; absent where it is not an object's. */
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
