/** The kinds that users write. Types, CRDs and printer columns all follow from one definition per kind. */
import type { CustomKind } from '../runtime/index.ts';
import {
  BookStore,
  bookStoreFinalizer,
  bookStorePage,
  defaultAppServiceName,
  defaultDatabaseServiceName,
} from './book-store.ts';
import { Echo } from './echo.ts';
import { limits } from './limits.ts';
import { Pet, petFinalizer } from './pet.ts';
import { PodSet } from './pod-set.ts';
import { PostgresWriter, postgresWriterFinalizer } from './postgres-writer.ts';
import { ScheduledEcho } from './scheduled-echo.ts';

export {
  BookStore,
  bookStoreFinalizer,
  bookStorePage,
  defaultAppServiceName,
  defaultDatabaseServiceName,
  Echo,
  limits,
  Pet,
  PodSet,
  PostgresWriter,
  petFinalizer,
  postgresWriterFinalizer,
  ScheduledEcho,
};

/** Every kind of the operator, in the order in which the CRDs are applied. */
export const kinds: readonly CustomKind[] = [Echo, ScheduledEcho, PodSet, BookStore, PostgresWriter, Pet];

/** The kinds with a finalizer. A deleted object stays until the operator has removed what the garbage collector does not. */
export const kindsWithFinalizer: readonly { readonly kind: CustomKind; readonly finalizer: string }[] = [
  { kind: BookStore, finalizer: bookStoreFinalizer },
  { kind: PostgresWriter, finalizer: postgresWriterFinalizer },
  { kind: Pet, finalizer: petFinalizer },
];
