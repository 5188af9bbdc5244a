/** Kinds: what an object of the API is, in types and as a CustomResourceDefinition, from one definition. */
export { type Condition, type DesiredCondition, findCondition, setCondition } from './condition.ts';
export { customResourceDefinition } from './custom-resource-definition.ts';
export {
  type CustomKind,
  type CustomObject,
  defineKind,
  isCustomKind,
  type KindDefinition,
  missingField,
  type PrinterColumn,
  type ScaleSubresource,
  type StandardStatus,
  specProblem,
  type ValidationRule,
} from './define-kind.ts';
export {
  apiVersionOf,
  builtInKind,
  controllerOf,
  controllerReference,
  groupOf,
  isControlledBy,
  type Kind,
  type ObjectOf,
  requireKeyInScope,
  resourceName,
  versionedResource,
} from './kind.ts';
export {
  type BuiltIn,
  type KubeObject,
  keyOf,
  keyString,
  type Manifest,
  type ObjectKey,
  type ObjectMeta,
  type OwnerReference,
  parseKey,
} from './object.ts';
export { type DesiredStatus, statusPatch } from './status-patch.ts';
export { NotStructuralError } from './structural-schema.ts';
export { isReadable, makeUnreadable, UnreadableObjectError, unreadableMembersOf } from './unreadable-object.ts';
