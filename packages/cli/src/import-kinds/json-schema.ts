import type { JSONSchema } from 'json-schema-to-typescript';

/** A node of an OpenAPI schema of a CustomResourceDefinition. It may come from anybody, so nothing is certain. */
type Node = Readonly<Record<string, unknown>>;

const maxDescription = 400;

/**
 * Converts the schema of a CustomResourceDefinition to a JSON schema for json-schema-to-typescript. The result has only
 * the keywords that are listed here: a `$ref` would be fetched, and a `tsType` would become code.
 */
function jsonSchemaOf(node: unknown): JSONSchema {
  const schema = asNode(node);
  const { description } = schema;
  return {
    ...typeOf(schema),
    ...(typeof description === 'string' && { description: safeComment(description) }),
  };
}

/** The schema of an object, without what `KubeObject` has. */
export function fieldsSchemaOf(node: unknown): JSONSchema {
  const { properties = {}, ...rest } = asNode(node);
  const { apiVersion, kind, metadata, ...fields } = asNode(properties);
  return objectOf({ ...rest, properties: fields });
}

function typeOf(schema: Node): JSONSchema {
  const isNullable = schema.nullable === true;
  const plain = plainTypeOf(schema);
  if (!isNullable) return plain;
  if (typeof plain.type === 'string' && plain.enum === undefined) return { ...plain, type: [plain.type, 'null'] };
  return { anyOf: [plain, { type: 'null' }] };
}

function plainTypeOf(schema: Node): JSONSchema {
  const { type, enum: values, items } = schema;
  if (schema['x-kubernetes-int-or-string'] === true) return { type: ['integer', 'string'] };
  if (schema['x-kubernetes-embedded-resource'] === true) return embedded(schema);
  const literals = Array.isArray(values) ? values.filter((value) => typeof value !== 'object') : [];
  if (literals.length > 0 && literals.length === (values as readonly unknown[]).length) return { enum: literals };
  switch (type) {
    case 'object':
      return objectOf(schema);
    case 'array':
      return { type: 'array', items: jsonSchemaOf(items) };
    case 'string':
    case 'boolean':
    case 'integer':
    case 'number':
      return { type };
    default:
      // Without a type: `x-kubernetes-preserve-unknown-fields` allows any value.
      return {};
  }
}

function objectOf(schema: Node): JSONSchema {
  const { properties, additionalProperties, required } = schema;
  const fields = Object.entries(asNode(properties));
  const isOpen = schema['x-kubernetes-preserve-unknown-fields'] === true || additionalProperties === true;
  const isMap = typeof additionalProperties === 'object' && additionalProperties !== null;
  const names = Array.isArray(required) ? required : [];
  return {
    type: 'object',
    properties: Object.fromEntries(fields.map(([name, each]) => [name, jsonSchemaOf(each)])),
    // A writer need not send a field that has a default.
    required: fields
      .filter(([name, each]) => names.includes(name) && !('default' in asNode(each)))
      .map(([name]) => name),
    additionalProperties: isMap ? jsonSchemaOf(additionalProperties) : isOpen || (fields.length === 0 && !isMap),
  };
}

/** A whole object of any kind, such as a template. */
function embedded(schema: Node): JSONSchema {
  const { properties, required, ...rest } = objectOf({ ...schema, 'x-kubernetes-preserve-unknown-fields': true });
  const text: JSONSchema = { type: 'string' };
  const metadata: JSONSchema = { type: 'object', additionalProperties: true };
  return {
    ...rest,
    properties: { ...properties, apiVersion: text, kind: text, metadata },
    required: ['apiVersion', 'kind'],
  };
}

const asNode = (value: unknown): Node =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Node) : {};

/** A description cannot end the comment that it becomes. */
function safeComment(description: string): string {
  const text = description.replaceAll('*/', '* /').trim();
  return text.length <= maxDescription ? text : `${text.slice(0, maxDescription).trimEnd()} …`;
}
