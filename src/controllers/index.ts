/**
 * The controllers of the operator: a folder per kind, with its reconciler and a function that adds it to a manager.
 *
 * This module exports only the permissions and the replacement of a disabled controller. The operator imports a controller
 * itself on demand, so a process loads only those that it runs.
 */
export { bookStorePermissions } from './book-store/permissions.ts';
export { addDisabledController, controllerDisabled, disabledPermissions } from './disabled-controller.ts';
export type { PolicyRule } from './permissions.ts';
export type { PodDefaults } from './pod-defaults.ts';
