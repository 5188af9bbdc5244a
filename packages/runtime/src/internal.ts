/**
 * What `@echoperator/testing` of the same version needs of the runtime. Not for operators: any release may change it.
 */
export { builtInTypes } from './apply/built-in-types.ts';
export { fieldSchema, resolve } from './apply/difference.ts';
export { getMember, getOwn, isObject, type JsonObject } from './apply/json.ts';
export { schemaOf, schemaOfDefinition } from './apply/kind-schema.ts';
export { parseNanos } from './apply/quantity.ts';
export { granular, type ListKey, type Schema } from './apply/schema.ts';
export { parseFieldSelector, parseLabelSelector } from './cache/label-selector.ts';
export { compareResourceVersions } from './cache/resource-version.ts';
export { objectPath } from './client/resource-path.ts';
export { isCustomKind } from './kind/define-kind.ts';
export { apiVersionOf, versionedResource, viewedResource } from './kind/kind.ts';
export { parseKey } from './kind/object.ts';
export { connectOperatorWith } from './process/connect-operator.ts';
export { pause } from './shared/pause.ts';
