import type { Context } from '@echoperator/runtime/controller';
import type { PersistentVolumeClaim, Pod } from '@echoperator/runtime/kinds';
import type { MissingPodsMemory } from '../shared/missing-pods.ts';
import type { BookStore } from './kind.ts';

/** What each index finds. */
type BookStoreIndexes = {
  /** Claims by the key of the StatefulSet whose pods use them. */
  readonly claimsByStatefulSet: PersistentVolumeClaim;
  readonly bookStoresByStatefulSet: BookStore;
  /** By the labels of a component. */
  readonly podsByLabels: Pod;
  readonly bookStoresByLabels: BookStore;
};

/** What the reconcile of a BookStore works with. */
export type BookStoreContext = Context<BookStore, string, undefined, MissingPodsMemory, BookStoreIndexes>;
