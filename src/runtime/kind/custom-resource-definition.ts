import type { V1CustomResourceDefinition } from '@kubernetes/client-node';
import type { CustomKind } from './define-kind.ts';
import { resourceName } from './kind.ts';
import type { BuiltIn, Manifest } from './object.ts';
import { type Json, structuralSchema } from './structural-schema.ts';

/** A TypeBox schema as plain JSON: what it carries for the type system alone is gone. */
const plain = (schema: object): Json => JSON.parse(JSON.stringify(schema)) as Json;

/**
 * The CustomResourceDefinition of a kind, with the status subresource, `scale` where it has one, and its printer columns.
 *
 * @throws NotStructuralError naming the path where the schema has no form that a CRD may hold.
 */
export function customResourceDefinition(
  kind: CustomKind,
): Manifest<BuiltIn<V1CustomResourceDefinition>> & { readonly apiVersion: string; readonly kind: string } {
  const { definition } = kind;
  const openAPIV3Schema = {
    type: 'object',
    description: definition.description,
    required: ['spec'],
    properties: {
      apiVersion: { type: 'string', description: 'The version of the schema of this object.' },
      kind: { type: 'string', description: 'The name of the resource that this object stands for.' },
      metadata: { type: 'object' },
      spec: structuralSchema(plain(definition.spec), 'spec'),
      status: structuralSchema(plain(definition.status), 'status'),
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
          additionalPrinterColumns: definition.printerColumns.map((column) => ({ ...column })),
        },
      ],
    },
  };
}
