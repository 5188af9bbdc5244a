import { isObject, type JsonObject } from '../apply/json.ts';
import { isTooDeep } from '../client/parse-body.ts';
import { customResourceDefinition } from '../kind/custom-resource-definition.ts';
import { type CustomKind, type KindVersion, specProblem } from '../kind/define-kind.ts';
import { apiVersionOf, resourceName } from '../kind/kind.ts';
import { type KubeObject, keyString } from '../kind/object.ts';
import { isLostFields, type LostField, lostFields, withLostFields } from './lost-fields.ts';

/** What a conversion converts. Names, labels and the rest of the metadata are the same in every version. */
export type Content<T extends KubeObject> = Omit<T, 'apiVersion' | 'kind' | 'metadata'>;

/** Functions between a version and the stored one, for {@link withVersion}. Neither may throw for a valid object. */
export interface Conversion<Stored extends KubeObject, Other extends KubeObject> {
  /**
   * Returns the content for the stored version. What the other version cannot hold of the spec may be absent or have
   * any value: the runtime restores it, unless a client has changed what it depends on. It restores nothing of the
   * status.
   */
  readonly toStored: (object: Other) => Content<Stored>;
  /** Returns what the other version can hold of the content. */
  readonly fromStored: (object: Stored) => Content<Other>;
}

/** Options of {@link withVersion}. */
export interface VersionOptions {
  /** Whether the API server serves the version. Default true. */
  readonly served?: boolean;
  /** The warning that clients of the version get: `use example.com/v1`. Default: the version is not deprecated. */
  readonly deprecated?: string;
}

/** A version cannot be added to a kind. */
export class VersionError extends Error {
  override readonly name = 'VersionError';
}

/** An object cannot be converted. The API server refuses the request with this message. */
export class ConversionError extends Error {
  override readonly name = 'ConversionError';
}

/**
 * Adds a version to a kind. The kind that it is added to is the stored version: reconcilers and informers see only that
 * one. With `conversion`, the operator must serve the conversion webhook.
 *
 * @param other the same group, kind, plural and scope with another version.
 * @param conversion Default: the schemas must be equal. With Kubernetes' strategy `None` a client of one version would
 *   silently remove the fields that only the other one has.
 * @throws VersionError if the kinds differ in more than the version, or if the schemas differ and there is no
 *   conversion.
 *
 * @example
 * export const Greeting = withVersion(GreetingV1, GreetingV1alpha1, {
 *   deprecated: 'use example.com/v1',
 *   conversion: {
 *     toStored: ({ spec: { name } }) => ({ spec: { who: name } }),
 *     fromStored: ({ spec: { who } }) => ({ spec: { name: who } }),
 *   },
 * });
 */
export function withVersion<Stored extends KubeObject, Other extends KubeObject>(
  stored: CustomKind<Stored>,
  other: CustomKind<Other>,
  { served = true, deprecated, conversion }: VersionOptions & { readonly conversion?: Conversion<Stored, Other> } = {},
): CustomKind<Stored> {
  for (const property of ['group', 'kind', 'plural', 'scope'] as const)
    if (other[property] !== stored[property])
      throw new VersionError(
        `${resourceName(stored)}: the ${property} of ${other.version} is ${other[property]}, must be ${stored[property]}`,
      );
  const versions = stored.versions ?? [];
  if ([stored, ...versions.map(({ kind }) => kind)].some(({ version }) => version === other.version))
    throw new VersionError(`${resourceName(stored)}: the version ${other.version} is there twice`);
  if (conversion === undefined) requireEqualSchemas(stored, other);
  // The functions get only objects of their own version.
  const erased = conversion as unknown as KindVersion['conversion'];
  return { ...stored, versions: [...versions, { kind: other, isServed: served, deprecated, conversion: erased }] };
}

/** Whether a kind needs a conversion webhook. */
export const needsConversion = ({ versions = [] }: CustomKind): boolean =>
  versions.some(({ conversion }) => conversion !== undefined);

function requireEqualSchemas(stored: CustomKind, other: CustomKind): void {
  const [one, two] = [stored, other].map(schemaOf);
  const [difference] = lostFields(one ?? {}, two ?? {});
  if (difference === undefined) return;
  throw new VersionError(
    `${resourceName(stored)}: the schemas of ${stored.version} and ${other.version} differ at ` +
      `${difference.path.join('.')}: add the functions of a conversion`,
  );
}

/** The schema of a version without what only people read. */
function schemaOf(kind: CustomKind): JsonObject {
  const schema = customResourceDefinition(kind, { isStoredVersionOnly: true }).spec.versions[0]?.schema
    ?.openAPIV3Schema;
  return JSON.parse(
    JSON.stringify(schema, (name, value) => (name === 'description' && isText(value) ? undefined : value)),
  );
}

const isText = (value: unknown): boolean => typeof value === 'string';

/** The annotation with what the version of an object cannot hold of another one: by version, a list of lost fields. */
export const lostFieldsAnnotation = 'runtime.echoperator.dev/lost-fields';

type LostByVersion = Readonly<Record<string, readonly LostField[]>>;

/**
 * Converts an object between two versions of a kind. What the new version cannot hold of the spec is kept in an
 * annotation, and comes back with a conversion in the other direction. There, what a client has changed meanwhile stays
 * changed. The metadata is unchanged otherwise.
 *
 * If the lost fields are larger than annotations may be (256 KiB), the object can be read in that version, and the API
 * server refuses to change it in that version. Nothing is refused here for its size: a request for a list would fail
 * for one object of one tenant.
 *
 * @param kind the stored version, with the others.
 * @throws ConversionError for an unknown version, and if a function throws.
 */
export function convert(kind: CustomKind, object: KubeObject, apiVersion: string): KubeObject {
  const from = versionOf(kind, object.apiVersion);
  const to = versionOf(kind, apiVersion);
  if (from === to) return object;
  if (from === kind.version) return step(kind, object, from, to);
  const stored = step(kind, object, from, kind.version);
  return to === kind.version ? stored : step(kind, stored, kind.version, to);
}

function versionOf(kind: CustomKind, apiVersion: string | undefined): string {
  const known = [kind, ...(kind.versions ?? []).map((each) => each.kind)];
  const found = known.find((each) => apiVersionOf(each) === apiVersion);
  if (found !== undefined) return found.version;
  throw new ConversionError(
    `${resourceName(kind)} has no version ${apiVersion}: it has ${known.map(apiVersionOf).join(', ')}`,
  );
}

/** Converts from or to the stored version. */
function step(kind: CustomKind, object: KubeObject, from: string, to: string): KubeObject {
  const { [to]: returning = [], [from]: _, ...others } = lostFieldsOf(object);
  const converted = contentOf(converterOf(kind, from, to)(object));
  const withContent = (content: JsonObject): KubeObject => {
    const target = withVersionOf(object, kind, to, content);
    const lost = lostFields(specOf(contentOf(converterOf(kind, to, from)(target))), specOf(contentOf(object)));
    return withAnnotation(target, lost.length === 0 ? others : { ...others, [from]: lost });
  };
  if (returning.length === 0) return withContent(converted);
  const restored = { ...converted, ...specOf(withLostFields(specOf(converted), returning)) };
  // Anybody may have written the annotation, and no schema has checked it. Clients rely on the schema of their version.
  // An object of an older schema may have a problem without the lost fields too: then they must not get lost.
  const hasProblem = (content: JsonObject): boolean =>
    specProblem(kindOfVersion(kind, to), withVersionOf(object, kind, to, content)) !== undefined;
  if (hasProblem(restored) && !hasProblem(converted)) return withContent(converted);
  try {
    return withContent(restored);
  } catch (error) {
    // A list of all objects must not fail for one of them.
    if (!(error instanceof ConversionError)) throw error;
    return withContent(converted);
  }
}

/**
 * The part of the content whose lost fields are kept. Not the status: who may write the annotation need not have the
 * right to write the status.
 */
const specOf = ({ spec }: JsonObject): JsonObject => (spec === undefined ? {} : { spec });

const kindOfVersion = (kind: CustomKind, version: string): CustomKind =>
  kind.versions?.find((each) => each.kind.version === version)?.kind ?? kind;

/** Returns the function that converts from or to the stored version. */
function converterOf(kind: CustomKind, from: string, to: string): (object: KubeObject) => object {
  const other = kind.versions?.find((each) => each.kind.version === (from === kind.version ? to : from));
  const { toStored, fromStored } = other?.conversion ?? { toStored: contentOf, fromStored: contentOf };
  const convertContent = from === kind.version ? fromStored : toStored;
  return (object) => {
    try {
      // Text and back: without undefined members, and without parts that are shared with the given object.
      return JSON.parse(JSON.stringify(convertContent(JSON.parse(JSON.stringify(object)))));
    } catch (error) {
      const what = `${resourceName(kind)} ${keyString(object.metadata)}`;
      throw new ConversionError(`${what} cannot be converted from ${from} to ${to}: ${String(error)}`, {
        cause: error,
      });
    }
  };
}

function contentOf(object: object): JsonObject {
  const { apiVersion: _, kind: __, metadata: ___, ...content } = object as JsonObject;
  return content;
}

const withVersionOf = (object: KubeObject, kind: CustomKind, version: string, content: JsonObject): KubeObject => ({
  apiVersion: apiVersionOf({ ...kind, version }),
  ...(object.kind !== undefined && { kind: object.kind }),
  metadata: object.metadata,
  ...content,
});

function withAnnotation(object: KubeObject, lost: LostByVersion): KubeObject {
  const { annotations: all, ...metadata } = object.metadata;
  const { [lostFieldsAnnotation]: before, ...others } = all ?? {};
  if (Object.keys(lost).length > 0)
    return {
      ...object,
      metadata: { ...metadata, annotations: { ...others, [lostFieldsAnnotation]: JSON.stringify(lost) } },
    };
  if (before === undefined) return object;
  return { ...object, metadata: Object.keys(others).length === 0 ? metadata : { ...metadata, annotations: others } };
}

/** Anybody may write an annotation, so what is not ours is ignored: a list of all objects must not fail for it. */
function lostFieldsOf({ metadata }: KubeObject): LostByVersion {
  let parsed: unknown;
  try {
    parsed = JSON.parse(metadata.annotations?.[lostFieldsAnnotation] ?? '{}');
  } catch {
    return {};
  }
  if (!isObject(parsed) || isTooDeep(parsed)) return {};
  return Object.fromEntries(
    Object.entries(parsed).filter((entry): entry is [string, readonly LostField[]] => isLostFields(entry[1])),
  );
}
