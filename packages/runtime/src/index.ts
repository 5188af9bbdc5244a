/**
 * `@echoperator/runtime`: a Kubernetes controller runtime for TypeScript.
 *
 * `docs/concepts.md` of the repository defines the terms; `docs/architecture.md` shows how they work together.
 *
 * The other entries: `/kinds` (built-in kinds), `/admission`, `/client`, `/cache`, `/controller`, `/process`, `/plan` and
 * `/leader-election`. Each begins with a comment that says when you need it. `@echoperator/testing` is for tests.
 */
export { Applier, type ApplyResult } from './apply/applier.ts';
export type { ReadonlyStore } from './cache/store.ts';
export type { Client } from './client/client.ts';
export { deleteIfPresent } from './controller/children.ts';
export { child } from './controller/context.ts';
export type { Reconcile, ReconcileContext } from './controller/controller.ts';
export { defineController } from './controller/define-controller.ts';
export { cleanedUp, finalizer } from './controller/finalizer.ts';
export { defineReasons, type Outcome, OutcomeReporter, type ReasonOf } from './controller/outcome.ts';
export { patchStatus } from './controller/patch-status.ts';
export { leasePermissions, type PolicyRule, permissions } from './controller/permissions.ts';
export type { Predicate } from './controller/predicate.ts';
export { done, type Result, requeueAfter, retry, TerminalError } from './controller/result.ts';
export * as predicates from './controller/standard-predicates.ts';
export { owns, watches } from './controller/watch.ts';
export { type Condition, findCondition } from './kind/condition.ts';
export {
  type CustomResourceDefinitionOptions,
  customResourceDefinition,
  customResourceDefinitions,
  type WebhookService,
} from './kind/custom-resource-definition.ts';
export { type CustomKind, defineKind, type KindVersion } from './kind/define-kind.ts';
export {
  builtInKind,
  controllerOf,
  controllerReference,
  isControlledBy,
  type Kind,
  metadataOnly,
  type ObjectOf,
  selected,
} from './kind/kind.ts';
export { type KubeObject, keyOf, keyString, type Manifest, type ObjectKey } from './kind/object.ts';

export { Manager } from './manager/manager.ts';
export { EventRecorder } from './observability/event-recorder.ts';
export type { Operator } from './process/connect-operator.ts';
export { runOperator } from './process/run-operator.ts';
export type { Logger } from './shared/logger.ts';
