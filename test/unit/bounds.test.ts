import { customResourceDefinition } from '@echoperator/runtime';
import { expect, test } from '@jest/globals';
import { kinds } from '../../src/operator.ts';

interface Schema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly maxProperties?: number;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: Schema;
  readonly 'x-kubernetes-int-or-string'?: boolean;
}

/**
 * The paths of the strings, lists and maps without a bound. A format is none: an RFC 3339 time may have any number of
 * decimals.
 */
function unbounded(schema: Schema, path: string): readonly string[] {
  const { type, properties = {}, items, additionalProperties } = schema;
  const isText = type === 'string' || schema['x-kubernetes-int-or-string'] === true;
  // A free-form part has no bound: the API server would tolerate no stored excess of one.
  const isMap = additionalProperties !== undefined;
  const missing = [
    ...(isText && schema.enum === undefined && schema.maxLength === undefined ? [`${path}: maxLength`] : []),
    ...(type === 'array' && schema.maxItems === undefined ? [`${path}: maxItems`] : []),
    ...(isMap && schema.maxProperties === undefined ? [`${path}: maxProperties`] : []),
  ];
  return [
    ...missing,
    ...Object.entries(properties).flatMap(([name, property]) => unbounded(property, `${path}.${name}`)),
    ...(items === undefined ? [] : unbounded(items, `${path}[]`)),
    ...(additionalProperties === undefined ? [] : unbounded(additionalProperties, `${path}.*`)),
  ];
}

test.each(kinds.map((kind) => [kind.kind, kind] as const))(
  'each string, list and map of a %s has a bound',
  (_, kind) => {
    const [version] = customResourceDefinition(kind).spec.versions;
    const { spec = {}, status = {} } = (version?.schema?.openAPIV3Schema?.properties ?? {}) as Record<string, Schema>;
    expect([...unbounded(spec, 'spec'), ...unbounded(status, 'status')]).toEqual([]);
  },
);
