/** The cache: a reflector keeps a store equal to the API server, an informer tells who asked what changed. */
export { Backoff } from './backoff.ts';
export {
  type CacheObserver,
  type CacheProgress,
  type DeltaHandler,
  type DeltaOrigin,
  Informer,
  type InformerOptions,
  type MissingPermission,
} from './informer.ts';
export type { IndexFunction } from './object-index.ts';
export { Reflector, type ReflectorOptions, type ReflectorTarget, type ReplaceWatchOptions } from './reflector.ts';
export { compareResourceVersions } from './resource-version.ts';
export type { ScopeOptions } from './scope.ts';
export { type Delta, type ReadonlyStore, type ReplaceOptions, Store } from './store.ts';
