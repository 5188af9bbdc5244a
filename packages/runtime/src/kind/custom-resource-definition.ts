import type { V1CustomResourceDefinition } from '@kubernetes/client-node';
import type { CustomKind } from './define-kind.ts';
import { resourceName } from './kind.ts';
import type { BuiltIn, Manifest } from './object.ts';
import { type Json, structuralSchema } from './structural-schema.ts';

/** Converts a TypeBox schema to plain JSON, without the members that only TypeBox uses. */
const toJson = (schema: object): Json => JSON.parse(JSON.stringify(schema)) as Json;

/**
 * Builds the CustomResourceDefinition of a kind, with its printer columns, the status subresource and, if the kind
 * declares it, the scale subresource.
 *
 * @throws NotStructuralError with the path of a schema that a CustomResourceDefinition cannot contain.
 */
export function customResourceDefinition(
  kind: CustomKind,
): Manifest<BuiltIn<V1CustomResourceDefinition>> & { readonly apiVersion: string; readonly kind: string } {
  const { definition } = kind;
  const openAPIV3Schema = {
    type: 'object',
    description: definition.description,
    required: ['spec'],
    ...(definition.validations && { 'x-kubernetes-validations': definition.validations.map((rule) => ({ ...rule })) }),
    properties: {
      apiVersion: { type: 'string', description: 'The version of the schema of this object.' },
      kind: { type: 'string', description: 'The kind of this object.' },
      metadata: { type: 'object' },
      spec: structuralSchema(toJson(definition.spec), 'spec'),
      status: structuralSchema(toJson(definition.status), 'status'),
    },
  };
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: resourceName(kind) },
    spec: {
      group: kind.group,
      names: {
        kind: kind.kind,
        listKind: `${kind.kind}List`,
        plural: kind.plural,
        singular: definition.singular ?? kind.kind.toLowerCase(),
        ...(definition.shortNames && { shortNames: [...definition.shortNames] }),
        ...(definition.categories && { categories: [...definition.categories] }),
      },
      scope: kind.scope,
      versions: [
        {
          name: kind.version,
          served: true,
          storage: true,
          schema: { openAPIV3Schema },
          subresources: { status: {}, ...(definition.scale && { scale: { ...definition.scale } }) },
          ...(definition.printerColumns && {
            additionalPrinterColumns: definition.printerColumns.map((column) => ({ ...column })),
          }),
        },
      ],
    },
  };
}

/** Builds the CustomResourceDefinition of the kind of each controller. */
export const customResourceDefinitions = (
  controllers: Iterable<{ readonly kind: CustomKind }>,
): readonly ReturnType<typeof customResourceDefinition>[] =>
  [...controllers].map(({ kind }) => customResourceDefinition(kind));
