import type { PersistentVolumeClaim, StatefulSet } from '../built-in-kinds.ts';
import { wordsOf } from '../refusal.ts';
import type { PartFinding, VolumeFinding } from './book-store-status.ts';
import type { ClaimsOutcome } from './claims.ts';
import type { Growth } from './growth.ts';
import { rolloutOf } from './rollout.ts';
import type { Settings } from './settings.ts';

/** No volume is on its way. */
export const settled: VolumeFinding = { reason: 'VolumesSettled', message: 'no volume is growing' };

/** The StatefulSet is being deleted by somebody else. */
export const replacing: PartFinding = {
  reason: 'Replacing',
  message: 'the StatefulSet is being deleted, and created again when it is gone',
};

/** Of the first claim in use that somebody deletes, if there is one: its pod is what keeps it. */
export function leavingClaim(claims: readonly PersistentVolumeClaim[]): PartFinding | undefined {
  const leaving = claims.find(({ metadata }) => metadata.deletionTimestamp !== undefined);
  if (leaving === undefined) return undefined;
  const { name } = leaving.metadata;
  const message = `claim ${name} is being deleted, and its data goes with the pod that has it: save the data, then delete that pod; until then no pod is replaced`;
  return { reason: 'ClaimBeingDeleted', message };
}

/** Of a StatefulSet that is as it is wanted. */
export function databaseFinding(statefulSet: StatefulSet): PartFinding {
  const { desired, ready, updated, isComplete } = rolloutOf(statefulSet);
  if (!isComplete) {
    const message = `${ready} of ${desired} databases are ready, ${updated} are of the present template`;
    return { reason: 'DatabaseUpdating', message };
  }
  if (desired <= 1) return { reason: 'DatabaseServing', message: `${ready} of ${desired} databases are ready` };
  const message = `${desired} databases are ready that know nothing of one another: each has its own data`;
  return { reason: 'IndependentDatabases', message };
}

/** Of the volumes on their way to a size. */
export function volumeFinding(
  { refusal }: ClaimsOutcome,
  { unfinished, pending, errors }: Growth,
  { database }: Settings,
): VolumeFinding {
  if (refusal !== undefined) return refusedToGrow(refusal);
  if (unfinished.length === 0) return settled;
  const growing = `${unfinished.join(', ')} to hold ${database.size}`;
  if (errors.length > 0) return { reason: 'ResizeFailing', message: errors.join('; ') };
  if (pending.length === 0) return { reason: 'ClaimsGrowing', message: growing };
  const message = `${growing}: the file system of ${pending.map(({ claim }) => claim).join(', ')} has not grown yet`;
  return { reason: 'FileSystemResizePending', message };
}

/** In the words of the admission plugin PersistentVolumeClaimResize. */
const classWords = 'must support resize';

function refusedToGrow({ claim, error }: NonNullable<ClaimsOutcome['refusal']>): VolumeFinding {
  const words = wordsOf(error);
  const { storageClassName = '' } = claim.spec ?? {};
  if (!words.includes(classWords)) return { reason: 'ResizeRefused', message: words };
  const named = storageClassName === '' ? 'no StorageClass' : `StorageClass ${storageClassName}`;
  const message = `claim ${claim.metadata.name} is of ${named}, which lets no volume grow (allowVolumeExpansion)`;
  return { reason: 'StorageClassCannotGrow', message };
}
