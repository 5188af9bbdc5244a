import type { Outcome } from '@echoperator/runtime';
import type { Pet } from './kind.ts';

/** The reasons of `Ready` of a Pet, beside the standard ones. */
export const petReasons = {
  Stored: { ready: 'True', event: 'Normal', meaning: 'The pet in the store matches the spec.' },
  Adding: { ready: 'False', event: 'Normal', meaning: 'The operator is adding the pet to the store.' },
  Deleting: {
    ready: 'False',
    event: 'Normal',
    meaning: 'The deletion waits because the store may still add a pet: the answer to an earlier request was lost.',
  },
  PetStoreUnavailable: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The store does not answer. The message says since when. The operator retries every few seconds.',
  },
  PetStoreFailed: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The store fails, or denies access to the operator. The message quotes it. The operator retries.',
  },
  PetRefused: {
    ready: 'False',
    event: 'Warning',
    meaning:
      'The store refuses this pet (`INVALID_ARGUMENT`, `OUT_OF_RANGE`). The message quotes it. The operator retries at each resync.',
  },
  InvalidPet: {
    ready: 'False',
    event: 'Warning',
    recordsMessageChanges: true,
    meaning: 'The spec does not describe a valid pet. The message names the field.',
  },
} as const;

export type PetOutcome = Outcome<keyof typeof petReasons, Pet>;
