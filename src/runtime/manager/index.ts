/** The manager: starts caches before workers, stops workers before caches. */
export { Manager, type ManagerOptions, type Readiness } from './manager.ts';
