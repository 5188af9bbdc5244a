/** What the operator does: a folder a kind, each a reconciler over the runtime that is added to a manager. */
export { addBookStoreController } from './book-store/index.ts';
export { bookStorePermissions } from './book-store/permissions.ts';
export { addEchoController } from './echo/index.ts';
export { echoPermissions } from './echo/permissions.ts';
export { addDisabledController, disabledPermissions } from './outside/index.ts';
export type { PolicyRule } from './permissions.ts';
export { petPermissions } from './pet/permissions.ts';
export { addPodSetController } from './pod-set/index.ts';
export { podSetPermissions } from './pod-set/permissions.ts';
export { addPostgresWriterController } from './postgres-writer/index.ts';
export { postgresWriterPermissions } from './postgres-writer/permissions.ts';
export { addScheduledEchoController } from './scheduled-echo/index.ts';
export { scheduledEchoPermissions } from './scheduled-echo/permissions.ts';
