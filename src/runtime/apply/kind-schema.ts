import { type CustomKind, customResourceDefinition, type Kind } from '../kind/index.ts';
import { builtInTypes } from './built-in-types.ts';
import { isObject, member } from './json.ts';
import { type ListOf, type Schema, unknown } from './schema.ts';

const schemas = new WeakMap<Kind, Schema>();

/**
 * How the objects of a kind are compared and merged: of a kind of the API server's own by the table of its types, of
 * one declared by `defineKind` by its definition. Of others only the metadata is known.
 */
export function schemaOf(kind: Kind): Schema {
  const known = schemas.get(kind) ?? (isCustom(kind) ? customSchema(kind) : builtInSchema(kind));
  schemas.set(kind, known);
  return known;
}

const metadata: Schema = { type: 'ref', name: 'meta.v1.ObjectMeta' };

const isCustom = (kind: Kind): kind is CustomKind => 'definition' in kind;

function builtInSchema({ group, version, kind }: Kind): Schema {
  // `rbac.authorization.k8s.io` is rbac. A group with another domain is somebody's CustomResourceDefinition.
  const [, name] = /^([^.]+)(?:(?:\.authorization)?\.k8s\.io)?$/.exec(group) ?? [];
  const type = builtInTypes[`${group === '' ? 'core' : name}.${version}.${kind}`];
  return type ?? { type: 'struct', fields: { metadata }, others: unknown };
}

function customSchema(kind: CustomKind): Schema {
  const [version] = customResourceDefinition(kind).spec?.versions ?? [];
  const schema = structural(version?.schema?.openAPIV3Schema);
  return schema.type === 'struct' ? { ...schema, fields: { ...schema.fields, metadata } } : schema;
}

/** From a schema of a CustomResourceDefinition, whose values are stored as they come. */
function structural(schema: unknown): Schema {
  const type = member(schema, 'type');
  if (type === 'array') return list(schema);
  if (type !== 'object') return type === undefined ? unknown : { type: 'scalar', keepsZero: true };
  const atomic = member(schema, 'x-kubernetes-map-type') === 'atomic' && { atomic: true as const };
  const properties = member(schema, 'properties');
  if (isObject(properties)) {
    const fields = Object.entries(properties).map(([name, property]) => [name, structural(property)] as const);
    return { type: 'struct', fields: Object.fromEntries(fields), others: unknown, ...atomic };
  }
  return { type: 'map', values: structural(member(schema, 'additionalProperties')), emptyIsAbsent: false, ...atomic };
}

function list(schema: unknown): ListOf {
  const items = member(schema, 'items');
  return { type: 'list', merge: mergeOf(schema, items), items: structural(items), emptyIsAbsent: false };
}

/** A list without a word on it is atomic. */
function mergeOf(schema: unknown, items: unknown): ListOf['merge'] {
  const listType = member(schema, 'x-kubernetes-list-type');
  const keys = member(schema, 'x-kubernetes-list-map-keys');
  if (listType === 'set') return 'set';
  if (listType !== 'map' || !Array.isArray(keys)) return 'atomic';
  return keys.map(String).map((name) => {
    const value = member(member(member(items, 'properties'), name), 'default');
    const isKey = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
    return isKey ? { name, default: value } : { name };
  });
}
