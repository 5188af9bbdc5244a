import { isDeepStrictEqual } from 'node:util';
import { type CustomKind, customResourceDefinition, type Kind, type KubeObject } from '@echoperator/runtime';
import { resourceName } from '@echoperator/runtime/client';
import { apiVersionOf, granular, versionedResource } from '@echoperator/runtime/internal';
import { CustomResourceDefinition } from '@echoperator/runtime/kinds';
import { customResetFields } from './field-managers.ts';
import { NotSimulatedError, RefusedError, type StoredObject, type Strategy } from './strategy.ts';

/**
 * Converts an object of a kind to another version of the kind, which `apiVersion` names. Must not change its argument.
 * Throws if it cannot convert the object.
 */
export type ConvertVersion = (object: KubeObject, apiVersion: string) => KubeObject;

/** The kinds that the server serves in several versions. */
export class KindVersions {
  readonly #kinds: ReadonlyMap<string, CustomKind>;
  readonly #convert: ConvertVersion;
  readonly #definitionOf: (name: string) => StoredObject | undefined;

  /** @param definitionOf returns the stored CustomResourceDefinition of this name. */
  constructor(
    kinds: readonly CustomKind[],
    convert: ConvertVersion,
    definitionOf: (name: string) => StoredObject | undefined,
  ) {
    this.#kinds = new Map(kinds.map((kind) => [resourceName(kind), kind]));
    this.#convert = convert;
    this.#definitionOf = definitionOf;
  }

  /** The key under which objects of all versions are stored. */
  resourceOf(kind: Kind): string {
    return versionedResource(this.#kinds.get(resourceName(kind)) ?? kind);
  }

  /** The versions of a kind; undefined if the server serves only one. */
  versionsOf(kind: Kind): readonly CustomKind[] | undefined {
    const stored = this.#kinds.get(resourceName(kind));
    return stored && [stored, ...(stored.versions ?? []).map((each) => each.kind)];
  }

  /** The object in the version in which a write stores it now. */
  encode(kind: Kind, object: StoredObject): StoredObject {
    if (!this.#kinds.has(resourceName(kind))) return object;
    const definition = this.#definitionOf(resourceName(kind));
    return this.decode({ ...kind, version: storedVersionOf(definition) ?? kind.version }, object);
  }

  /** The object in the version of the kind. @throws RefusedError if it cannot be converted. */
  decode(kind: Kind, object: StoredObject): StoredObject {
    const apiVersion = apiVersionOf(kind);
    if (object.apiVersion === apiVersion || !this.#kinds.has(resourceName(kind))) return object;
    try {
      return this.#convert(object as KubeObject, apiVersion) as StoredObject;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      const message = `conversion webhook for ${object.apiVersion}, Kind=${object.kind} failed: ${why}`;
      throw new RefusedError({ code: 500, message });
    }
  }
}

interface Spec {
  readonly versions: readonly { readonly name: string; readonly storage: boolean }[];
}

const storedVersionOf = (definition: StoredObject | undefined): string | undefined =>
  (definition?.spec as Spec | undefined)?.versions.find(({ storage }) => storage)?.name;

/** The definition of a kind whose versions the server converts with a {@link ConvertVersion}. */
export const definitionOf = (kind: CustomKind): object =>
  // The simulated server calls no Service, so its name does not matter.
  customResourceDefinition(kind, { conversionService: { namespace: 'default', name: 'conversion' } });

/**
 * What the API server does to a CustomResourceDefinition, as far as versions need it: a client may change which version
 * is stored, and remove versions from `status.storedVersions`. Source: strategy.go and the validation of
 * k8s.io/apiextensions-apiserver 1.36.
 *
 * Its methods throw {@link NotSimulatedError} for any other change.
 */
export const definitionStrategy: Strategy = {
  kind: CustomResourceDefinition,
  // Lists of a definition are atomic, as those without a schema. Those with keys are in its conditions, which are
  // absent.
  schema: granular,
  hasStatus: true,
  requiresVersion: true,
  resetFields: customResetFields,
  decode: (object) => object,
  create: (object) => ({
    ...object,
    metadata: { ...object.metadata, generation: 1 },
    status: { storedVersions: [storedVersionOf(object)] },
  }),
  update: (object, old, subresource) => {
    const { storedVersions } = old.status as { readonly storedVersions: readonly string[] };
    if (subresource === 'status') {
      const { managedFields } = object.metadata;
      const changed = { ...old, metadata: { ...old.metadata, ...(managedFields && { managedFields }) } };
      const next = (object.status as { readonly storedVersions?: readonly string[] } | undefined)?.storedVersions;
      const isKnown = next?.every((version) => storedVersions.includes(version)) === true;
      if (!isKnown || !next.includes(storedVersionOf(old) ?? ''))
        throw new NotSimulatedError(`a definition with the stored versions ${next?.join(', ')}`);
      return { ...changed, status: { storedVersions: next } };
    }
    if (isDeepStrictEqual(object.spec, old.spec)) return { ...object, status: old.status };
    if (!isDeepStrictEqual(withoutStorage(object), withoutStorage(old)))
      throw new NotSimulatedError('a change of a definition other than of the version that is stored');
    const stored = (object.spec as Spec).versions.filter(({ storage }) => storage).map(({ name }) => name);
    if (stored.length !== 1) throw new NotSimulatedError('a definition that stores several versions, or none');
    return {
      ...object,
      metadata: { ...object.metadata, generation: (old.metadata.generation ?? 0) + 1 },
      status: { storedVersions: [...new Set([...storedVersions, ...stored])] },
    };
  },
};

function withoutStorage({ spec }: StoredObject): object {
  const { versions, ...rest } = spec as Spec;
  return { ...rest, versions: versions.map(({ storage: _, ...each }) => each) };
}
