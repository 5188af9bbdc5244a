/**
 * `@echoperator/runtime`: a Kubernetes controller runtime for TypeScript.
 *
 * The terms, in the order in which a change travels (those of `docs/concepts.md` in the same words):
 * - **Kind**: a resource type. `defineKind` declares a custom one: type, schema, CRD and printer columns.
 * - **Client**: reads and writes objects at the API server, typed by kind.
 * - **Reflector**: lists and watches a kind, and keeps a store equal to the API server.
 * - **Store**: the cached objects of one kind, by key and by index. Read-only for reconcilers.
 * - **Informer**: a store and its reflectors: one, or one per namespace (a *partition*). Shared by all controllers. It passes each change to its handlers.
 * - **Delta**: one change in a store: added, modified, deleted.
 * - **Predicate**: decides whether a delta matters to a controller. See `predicates`.
 * - **Key**: namespace and name of an object. Deltas become keys; a reconciler gets a key, not a delta.
 * - **Work queue**: the keys to reconcile, each at most once. It has priorities, delays and backoff.
 * - **Overlay**: what responses have shown and the watch has not delivered yet: the store shows it, or that it is gone.
 * - **Controller**: takes keys from its queue; its workers call the reconciler.
 * - **Reconciler**: reads the stores, compares actual and desired state, and acts. Level-based and idempotent.
 * - **Applier**: server-side applies a child, and sends nothing if it does not differ.
 * - **Finalizer**: keeps a deleted object until the controller has cleaned up. For what the garbage collector cannot delete.
 * - **Outcome**: how a reconcile ended: reason, message, status, and when to requeue.
 * - **OutcomeReporter**: turns an outcome into the status, an Event and a result.
 * - **EventRecorder**: writes Events, which `kubectl describe` shows.
 * - **Manager**: owns informers and controllers; starts and stops them.
 * - **Lease**, **leader**, **standby**: of several processes the holder of the Lease reconciles, the others wait.
 * - **Operator**: the manager with its client, recorder, metrics and leader election. `runOperator` runs one as a process.
 *
 * The other entries: `/kinds` (built-in kinds), `/client`, `/cache`, `/controller`, `/process`, `/leader-election` and
 * `/testing`. Each begins with a comment that says when you need it.
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
export * as predicates from './controller/predicates.ts';
export { done, type Result, requeueAfter, retry, TerminalError } from './controller/result.ts';
export { watches, watchesByName } from './controller/watch.ts';
export { type Condition, findCondition } from './kind/condition.ts';
export { customResourceDefinition, customResourceDefinitions } from './kind/custom-resource-definition.ts';
export { type CustomKind, defineKind } from './kind/define-kind.ts';
export {
  builtInKind,
  controllerOf,
  controllerReference,
  isControlledBy,
  type Kind,
  type ObjectOf,
} from './kind/kind.ts';
export { type KubeObject, keyOf, keyString, type Manifest, type ObjectKey } from './kind/object.ts';

export { Manager } from './manager/manager.ts';
export { EventRecorder } from './observability/event-recorder.ts';
export type { Logger } from './observability/logger.ts';
export type { Operator } from './process/connect-operator.ts';
export { runOperator } from './process/run-operator.ts';
