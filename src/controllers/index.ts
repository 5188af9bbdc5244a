/**
 * What the operator does: a folder a kind, each a reconciler over the runtime that is added to a manager.
 *
 * Here is what every operator needs of them. A controller itself is imported by the operator that runs it, when it does.
 */
export { bookStorePermissions } from './book-store/permissions.ts';
export { echoPermissions } from './echo/permissions.ts';
export { addDisabledController, disabledPermissions } from './outside/index.ts';
export type { PolicyRule } from './permissions.ts';
export { petPermissions } from './pet/permissions.ts';
export { podSetPermissions } from './pod-set/permissions.ts';
export { postgresWriterPermissions } from './postgres-writer/permissions.ts';
export { scheduledEchoPermissions } from './scheduled-echo/permissions.ts';
