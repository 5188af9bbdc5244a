/** What the operator does: a folder a kind, each a reconciler over the runtime that is added to a manager. */
export { addEchoController } from './echo/index.ts';
export { addPodSetController } from './pod-set/index.ts';
export { addScheduledEchoController } from './scheduled-echo/index.ts';
