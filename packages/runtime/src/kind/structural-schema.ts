/** A JSON value. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
type JsonObject = { readonly [key: string]: Json };

/** A CustomResourceDefinition cannot contain this schema. */
export class NotStructuralError extends Error {
  override readonly name = 'NotStructuralError';
  /** The place in the schema: `spec.items[].name`. */
  readonly path: string;

  constructor(path: string, problem: string) {
    super(`schema at ${path}: ${problem}`);
    this.path = path;
  }
}

/** Keywords that contain no schema and have the same meaning in JSON Schema and in a CRD. */
const plainKeywords = new Set([
  'type',
  'title',
  'description',
  'format',
  'default',
  'example',
  'enum',
  'nullable',
  'minimum',
  'maximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'pattern',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
  'required',
]);

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isConst = (schema: Json): schema is JsonObject & { const: Json } => isObject(schema) && 'const' in schema;

function jsonType(value: Json, path: string): string {
  if (typeof value === 'string' || typeof value === 'boolean') return typeof value;
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  throw new NotStructuralError(
    path,
    `an enum value must be a string, a number or a boolean, not ${JSON.stringify(value)}`,
  );
}

function enumOf(values: readonly Json[], path: string): JsonObject {
  const types = new Set(values.map((value) => jsonType(value, path)));
  // An integer is a number, so a mixed enum has the type number.
  if (types.has('number')) types.delete('integer');
  const [type] = types;
  if (type === undefined) throw new NotStructuralError(path, 'an enum must have a value');
  if (types.size > 1) {
    throw new NotStructuralError(path, `the values of an enum must have one type, not ${[...types].join(' and ')}`);
  }
  return { type, enum: values };
}

/** Supports two forms of unions: literals, which become an enum, and one schema with null, which becomes nullable. */
function unionOf(branches: readonly Json[], path: string): JsonObject {
  if (branches.every(isConst)) {
    return enumOf(
      branches.map((branch) => branch.const),
      path,
    );
  }
  const present = branches.filter((branch) => !(isObject(branch) && branch.type === 'null'));
  const [only] = present;
  if (present.length === 1 && branches.length === 2 && only !== undefined) {
    const schema = structuralSchema(only, path);
    // The API server rejects null for an enum, even with `nullable` and even if null is one of the values
    // (k8s.io/kube-openapi/pkg/validation/validate, basicCommonValidator).
    if ('enum' in schema) throw new NotStructuralError(path, 'an enum cannot be null: make the field optional instead');
    return { ...schema, nullable: true };
  }
  throw new NotStructuralError(
    path,
    'anyOf has no structural form, except for literals and for one type with null: for an integer or a string use ' +
      'Type.Unsafe with x-kubernetes-int-or-string: true, else an object with optional fields and ' +
      'x-kubernetes-validations',
  );
}

/** TypeBox writes a record as `patternProperties` with one pattern. A CRD supports only a schema for all keys. */
function recordOf(patterns: Json, path: string): JsonObject {
  const entries = isObject(patterns) ? Object.entries(patterns) : [];
  const [entry] = entries;
  if (entry === undefined || entries.length > 1) {
    throw new NotStructuralError(path, 'patternProperties has a structural form only with one pattern, for every key');
  }
  const [pattern, value] = entry;
  if (pattern !== '^.*$' && pattern !== '^(.*)$') {
    throw new NotStructuralError(
      path,
      `patternProperties has no structural form for the pattern ${pattern}: use Type.Record(Type.String(), …)`,
    );
  }
  return { additionalProperties: structuralSchema(value, `${path}{}`) };
}

function structuralKeyword(keyword: string, value: Json, path: string): JsonObject {
  if (plainKeywords.has(keyword) || keyword.startsWith('x-kubernetes-')) return { [keyword]: value };
  switch (keyword) {
    case 'properties':
      return {
        properties: Object.fromEntries(
          Object.entries(isObject(value) ? value : {}).map(([name, schema]) => [
            name,
            structuralSchema(schema, `${path}.${name}`),
          ]),
        ),
      };
    case 'items':
      return { items: structuralSchema(value, `${path}[]`) };
    case 'additionalProperties':
      if (typeof value === 'boolean') {
        throw new NotStructuralError(path, 'additionalProperties must be a schema: unknown fields are pruned anyway');
      }
      return { additionalProperties: structuralSchema(value, `${path}{}`) };
    case 'patternProperties':
      return recordOf(value, path);
    case 'const':
      return enumOf([value], path);
    case 'anyOf':
      return unionOf(Array.isArray(value) ? value : [], path);
    case 'exclusiveMinimum':
      return { minimum: value, exclusiveMinimum: true };
    case 'exclusiveMaximum':
      return { maximum: value, exclusiveMaximum: true };
    default:
      throw new NotStructuralError(path, `${keyword} has no structural form`);
  }
}

/**
 * Skips fields with a default: the API server fills in a default before it validates. Otherwise `kubectl explain` would
 * print the field as required.
 */
function requiredOf({ required, properties }: JsonObject): readonly Json[] | undefined {
  if (!Array.isArray(required)) return undefined;
  return required.filter((name) => {
    const schema = isObject(properties) ? properties[String(name)] : undefined;
    return !(isObject(schema) && 'default' in schema);
  });
}

/**
 * Converts a JSON Schema to a structural schema, the only form that a CustomResourceDefinition accepts
 * (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema).
 * A field with a default is not required. Literals become enums, records become `additionalProperties`, a union with
 * null becomes `nullable`, and numeric exclusive bounds become the boolean ones of OpenAPI 3.0.
 *
 * @throws NotStructuralError with the path of a schema that has no structural form.
 */
export function structuralSchema(schema: Json, path: string): JsonObject {
  if (!isObject(schema))
    throw new NotStructuralError(path, `a schema must be an object, not ${JSON.stringify(schema)}`);
  const result: Record<string, Json> = {};
  for (const [keyword, value] of Object.entries(schema)) {
    Object.assign(result, structuralKeyword(keyword, value, path));
  }
  const required = requiredOf(result);
  if (required !== undefined && required.length > 0) result.required = required;
  else delete result.required;
  if (Array.isArray(result.enum) && result.type === undefined) Object.assign(result, enumOf(result.enum, path));
  if (result.type === undefined && result['x-kubernetes-int-or-string'] !== true) {
    if (result['x-kubernetes-preserve-unknown-fields'] !== true)
      throw new NotStructuralError(
        path,
        'the type is missing: for any value, use Type.Unsafe with x-kubernetes-preserve-unknown-fields: true',
      );
  }
  return result;
}
