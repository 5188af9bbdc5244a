import { customResourceDefinition } from '../kind/custom-resource-definition.ts';
import { type CustomKind, isCustomKind } from '../kind/define-kind.ts';
import type { Kind } from '../kind/kind.ts';
import { builtInTypes } from './built-in-types.ts';
import { getMember, isObject } from './json.ts';
import { granular, type ListOf, type Schema, schemaless } from './schema.ts';

const schemas = new WeakMap<Kind, Schema>();

/**
 * Returns the merge schema of a kind: from the generated table for a built-in kind, from its definition for a kind
 * declared with `defineKind`. For any other kind only the schema of the metadata is known.
 */
export function schemaOf(kind: Kind): Schema {
  const schema = schemas.get(kind) ?? (isCustomKind(kind) ? customSchema(kind) : builtInSchema(kind));
  schemas.set(kind, schema);
  return schema;
}

const metadata: Schema = { type: 'ref', name: 'meta.v1.ObjectMeta' };

function builtInSchema({ group, version, kind }: Kind): Schema {
  // The table calls `rbac.authorization.k8s.io` rbac. Groups of other domains belong to CustomResourceDefinitions.
  const [, name] = /^([^.]+)(?:(?:\.authorization)?\.k8s\.io)?$/.exec(group) ?? [];
  const type = builtInTypes[`${group === '' ? 'core' : name}.${version}.${kind}`];
  return type ?? { type: 'struct', fields: { metadata }, others: schemaless };
}

function customSchema(kind: CustomKind): Schema {
  const [version] = customResourceDefinition(kind).spec?.versions ?? [];
  return schemaOfDefinition(version?.schema?.openAPIV3Schema);
}

/** Returns the merge schema of a version of a CustomResourceDefinition, from its `openAPIV3Schema`. */
export function schemaOfDefinition(openAPIV3Schema: unknown): Schema {
  const schema = convert(openAPIV3Schema);
  return schema.type === 'struct' ? { ...schema, fields: { ...schema.fields, metadata } } : schema;
}

/** Converts a schema of a CustomResourceDefinition. The server stores zero values of custom resources. */
function convert(schema: unknown): Schema {
  const type = getMember(schema, 'type');
  if (type === 'array') return convertList(schema);
  if (type !== 'object') return type === undefined ? granular : { type: 'scalar', keepsZero: true };
  const atomic = getMember(schema, 'x-kubernetes-map-type') === 'atomic' && { atomic: true as const };
  const properties = getMember(schema, 'properties');
  if (isObject(properties)) {
    const fields = Object.entries(properties).map(([name, property]) => [name, convert(property)] as const);
    return { type: 'struct', fields: Object.fromEntries(fields), others: granular, ...atomic };
  }
  return { type: 'map', values: convert(getMember(schema, 'additionalProperties')), emptyIsAbsent: false, ...atomic };
}

function convertList(schema: unknown): ListOf {
  const items = getMember(schema, 'items');
  return { type: 'list', merge: mergeStrategy(schema, items), items: convert(items), emptyIsAbsent: false };
}

/** A list is atomic by default. */
function mergeStrategy(schema: unknown, items: unknown): ListOf['merge'] {
  const listType = getMember(schema, 'x-kubernetes-list-type');
  const keys = getMember(schema, 'x-kubernetes-list-map-keys');
  if (listType === 'set') return 'set';
  if (listType !== 'map' || !Array.isArray(keys)) return 'atomic';
  return keys.map(String).map((name) => {
    const value = getMember(getMember(getMember(items, 'properties'), name), 'default');
    const isKey = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
    return isKey ? { name, default: value } : { name };
  });
}
