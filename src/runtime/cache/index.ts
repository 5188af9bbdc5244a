/**
 * `@echoperator/runtime/cache`: the informer, which lists and watches a kind, and the store, which holds its objects.
 *
 * `Manager.informer` returns the shared informer of a kind. Import this entry to name the types of an informer's options,
 * handlers and deltas.
 */
export {
  type AnyInformer,
  type CacheObserver,
  type CacheStatistics,
  type Coverage,
  type DeltaHandler,
  type DeltaOrigin,
  type FieldOwner,
  Informer,
  type InformerOptions,
  type Unavailability,
} from './informer.ts';
export type { IndexFunction } from './object-index.ts';
export type { ReflectorOptions, ReplaceWatchOptions, WatchReplacement } from './reflector.ts';
export type { ScopeOptions } from './scope.ts';
export { type Delta, type ReadonlyStore, type ReplaceOptions, Store, type StoreOptions } from './store.ts';
