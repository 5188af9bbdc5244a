/** What users write: one definition a kind, from which come the types, the CRDs and the printer columns. */
import type { CustomKind } from '../runtime/index.ts';
import { BookStore, bookStoreFinalizer } from './book-store.ts';
import { Echo } from './echo.ts';
import { Pet, petFinalizer } from './pet.ts';
import { PodSet } from './pod-set.ts';
import { PostgresWriter, postgresWriterFinalizer } from './postgres-writer.ts';
import { ScheduledEcho } from './scheduled-echo.ts';

export {
  BookStore,
  bookStoreFinalizer,
  Echo,
  Pet,
  PodSet,
  PostgresWriter,
  petFinalizer,
  postgresWriterFinalizer,
  ScheduledEcho,
};

/** Every kind that the operator brings, in the order in which its CRDs are applied. */
export const kinds: readonly CustomKind[] = [Echo, ScheduledEcho, PodSet, BookStore, PostgresWriter, Pet];

/** Those whose objects stay, when they are deleted, until the operator has removed what does not go by itself. */
export const guardedKinds: readonly { readonly kind: CustomKind; readonly finalizer: string }[] = [
  { kind: BookStore, finalizer: bookStoreFinalizer },
  { kind: PostgresWriter, finalizer: postgresWriterFinalizer },
  { kind: Pet, finalizer: petFinalizer },
];
