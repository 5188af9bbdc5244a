/** The manager: starts caches before workers, stops workers before caches. */
export {
  type ControllerHandle,
  Manager,
  type ManagerOptions,
  type ManagerRunOptions,
  type Readiness,
} from './manager.ts';
