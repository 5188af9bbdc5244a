/** The cache: a reflector keeps a store equal to the API server, an informer tells who asked what changed. */
export { Backoff } from './backoff.ts';
export { type CacheProgress, type DeltaHandler, Informer } from './informer.ts';
export { Reflector, type ReflectorTarget } from './reflector.ts';
export { compareResourceVersions } from './resource-version.ts';
export { type Delta, type IndexFunction, type ReadonlyStore, Store } from './store.ts';
