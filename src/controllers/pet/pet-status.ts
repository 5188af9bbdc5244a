import type { Pet } from '../../api/index.ts';
import { type Condition, type DesiredStatus, findCondition, setCondition } from '../../runtime/index.ts';
import type { ReadyReport } from '../report-ready.ts';

type Status = NonNullable<Pet['status']>;

/** The pet that is about to be added, as the status records it. */
export type Intent = NonNullable<Status['intent']>;

/** Why `Ready` is what it is: its reasons, each with its status, and whether a person should look at it. */
export const reasons = {
  Stored: { ready: 'True', isWarning: false },
  Adding: { ready: 'False', isWarning: false },
  Deleting: { ready: 'False', isWarning: false },
  PetStoreUnavailable: { ready: 'False', isWarning: true },
  PetStoreFailed: { ready: 'False', isWarning: true },
  PetRefused: { ready: 'False', isWarning: true },
  InvalidPet: { ready: 'False', isWarning: true },
} as const;

export type Reason = keyof typeof reasons;

/** What a reconcile has found out about a Pet. */
export interface Finding {
  readonly reason: Reason;
  readonly message: string;
}

/** What is to be reported, with what else of the status changes. Others' conditions stay. */
export function readyReport(
  pet: Pet,
  { reason, message }: Finding,
  rest: Pick<DesiredStatus<Status>, 'id' | 'intent'>,
  now: Date,
): ReadyReport<Pet> {
  const { ready, isWarning } = reasons[reason];
  const { generation } = pet.metadata;
  const condition = { type: 'Ready', status: ready, reason, message, observedGeneration: generation };
  return {
    reason,
    message,
    isWarning,
    status: {
      ...rest,
      observedGeneration: generation,
      conditions: setCondition(pet.status?.conditions, condition, now),
    },
  };
}

/** The condition `Ready`, if it is about the Pet's present generation. */
export function presentReady({ metadata, status }: Pet): Condition | undefined {
  const ready = findCondition(status?.conditions, 'Ready');
  return ready?.observedGeneration === metadata.generation ? ready : undefined;
}

/** Whether the store was told of the present spec, and has taken it. */
export const isStored = (pet: Pet): boolean => pet.status?.id !== undefined && presentReady(pet)?.status === 'True';
