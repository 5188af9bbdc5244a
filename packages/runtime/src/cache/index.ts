/**
 * `@echoperator/runtime/cache`: the informer, which lists and watches a kind, and the store, which holds its objects.
 *
 * `Manager.informer` returns the shared informer of a kind. Import this entry to name the types of an informer's
 * options, handlers and deltas.
 */
export {
  type AnyInformer,
  type CacheStatistics,
  type DeltaHandler,
  type DeltaOrigin,
  type FieldOwner,
  Informer,
  type InformerOptions,
  type TrackedRequest,
  type Unavailability,
  type Writer,
  type WriterOf,
} from './informer.ts';
export type { IndexFunction } from './object-index.ts';
export type { ReflectorOptions } from './reflector.ts';
export type { ScopeOptions } from './scope.ts';
export type { Delta } from './store.ts';
