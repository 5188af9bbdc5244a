import type { V1CustomResourceDefinition } from '@kubernetes/client-node';
import type { CustomKind } from './define-kind.ts';
import { resourceName } from './kind.ts';
import type { BuiltIn, Manifest } from './object.ts';
import { type Json, structuralSchema } from './structural-schema.ts';

/** Converts a TypeBox schema to plain JSON, without the members that only TypeBox uses. */
const toJson = (schema: object): Json => JSON.parse(JSON.stringify(schema)) as Json;

/** The Service that leads to the conversion webhook of an operator. */
export interface ConversionService {
  readonly namespace: string;
  readonly name: string;
  /** Default 443. */
  readonly port?: number;
}

/** Options of {@link customResourceDefinition}. */
export interface CustomResourceDefinitionOptions {
  /** Required if a version of the kind has a conversion. */
  readonly conversionService?: ConversionService | undefined;
  /**
   * Leaves out the versions beside the stored one, and with them the webhook: for the API server of a test, which cannot
   * call the operator. Default false.
   */
  readonly isStoredVersionOnly?: boolean;
}

/** The path of the conversion webhook. */
export const conversionPath = '/convert';

type Version = V1CustomResourceDefinition['spec']['versions'][number];

/**
 * Builds the CustomResourceDefinition of a kind, with its versions, its printer columns, the status subresource and, if
 * the kind declares it, the scale subresource.
 *
 * @throws NotStructuralError with the path of a schema that a CustomResourceDefinition cannot contain; TypeError if a
 *   version has a conversion and no Service is given.
 */
export function customResourceDefinition(
  kind: CustomKind,
  { conversionService, isStoredVersionOnly = false }: CustomResourceDefinitionOptions = {},
): Manifest<BuiltIn<V1CustomResourceDefinition>> & { readonly apiVersion: string; readonly kind: string } {
  const { definition } = kind;
  const versions = isStoredVersionOnly ? [] : (kind.versions ?? []);
  const hasConversion = versions.some(({ conversion }) => conversion !== undefined);
  if (hasConversion && conversionService === undefined)
    throw new TypeError(`${resourceName(kind)} has versions with a conversion: set conversionService`);
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
        versionOf(kind, { served: true, storage: true }),
        ...versions.map((version) =>
          versionOf(version.kind, {
            served: version.isServed,
            storage: false,
            ...(version.deprecated !== undefined && { deprecated: true, deprecationWarning: version.deprecated }),
          }),
        ),
      ],
      ...(hasConversion &&
        conversionService && {
          conversion: {
            strategy: 'Webhook',
            webhook: {
              conversionReviewVersions: ['v1'],
              clientConfig: { service: { path: conversionPath, ...conversionService } },
            },
          },
        }),
    },
  };
}

function versionOf({ version, definition }: CustomKind, state: Omit<Version, 'name'>): Version {
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
    name: version,
    ...state,
    schema: { openAPIV3Schema },
    subresources: { status: {}, ...(definition.scale && { scale: { ...definition.scale } }) },
    ...(definition.printerColumns && {
      additionalPrinterColumns: definition.printerColumns.map((column) => ({ ...column })),
    }),
  };
}

/** Builds the CustomResourceDefinition of the kind of each controller. */
export const customResourceDefinitions = (
  controllers: Iterable<{ readonly kind: CustomKind }>,
  options: CustomResourceDefinitionOptions = {},
): readonly ReturnType<typeof customResourceDefinition>[] =>
  [...controllers].map(({ kind }) => customResourceDefinition(kind, options));
