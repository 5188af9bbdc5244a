/** The manager: starts caches before workers, stops workers before caches. */
export { CacheSyncError } from './cache-sync-error.ts';
export {
  Manager,
  type ManagerOptions,
  type ManagerRunOptions,
  type Readiness,
} from './manager.ts';
