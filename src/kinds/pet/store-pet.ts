import { dayFromText, dayText, trimmedName } from '@echoperator/petstore/wire';
import { quoteText } from '@echoperator/runtime/client';
import { currentReady } from '@echoperator/runtime/controller';
import { limits } from '../shared/limits.ts';
import type { Pet } from './kind.ts';

/** A pet without its id. */
export interface StorePet {
  readonly name: string;
  readonly type: Pet['spec']['type'];
  /** The day in UTC: 2020-01-31. */
  readonly birthday: string;
}

/** The schema accepts the spec, but it describes no valid pet. The message names the field. */
export class InvalidPetError extends Error {
  override readonly name = 'InvalidPetError';
}

/**
 * The pet that a spec asks for, as the store keeps it: the name without Unicode white space around it, the birthday as
 * a day in UTC.
 *
 * @throws InvalidPetError for a blank name or an invalid time.
 */
export function wantedPet({ name, type, birthday }: Pet['spec']): StorePet {
  const trimmed = trimmedName(name);
  if (trimmed === '') throw new InvalidPetError(`spec.name: got ${quoteText(name)}, expected a name that is not blank`);
  return { name: trimmed, type, birthday: dayInUtc(birthday) };
}

/** RFC 3339 requires a time zone; Date.parse would read a text without one as local time. */
const rfc3339 = /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$/;

function dayInUtc(birthday: string): string {
  const time = new Date(birthday.slice(0, limits.time).toUpperCase());
  const written = dayFromText(birthday.slice(0, 10));
  const isTime = birthday.length <= limits.time && rfc3339.test(birthday);
  if (isTime && written !== undefined && !Number.isNaN(time.getTime())) {
    const day = { year: time.getUTCFullYear(), month: time.getUTCMonth() + 1, day: time.getUTCDate() };
    if (dayFromText(dayText(day)) !== undefined) return dayText(day);
  }
  throw new InvalidPetError(
    `spec.birthday: got ${quoteText(birthday)}, expected an RFC 3339 time in the years 1 to 9999, such as 2020-01-31T00:00:00Z`,
  );
}

/** A request to add a pet, as the status records it before the request is sent. */
export type Intent = NonNullable<NonNullable<Pet['status']>['intent']>;

/** A header can carry it; the operator writes UUIDs. */
const requestIdPattern = /^[!-~]{1,64}$/;

/**
 * The request that the status records. Undefined also if it is one that the operator cannot have sent: others may write
 * a status, and no message can carry a birthday such as 9999-99-99.
 */
export function recordedIntent({ status }: Pet): Intent | undefined {
  const intent: unknown = status?.intent;
  if (!isIntent(intent)) return undefined;
  const { birthday, requestId, since } = intent;
  const wasSent = dayFromText(birthday) !== undefined && requestIdPattern.test(requestId);
  return wasSent && !Number.isNaN(Date.parse(since)) ? intent : undefined;
}

/** What was stored under another CustomResourceDefinition may be anything. */
function isIntent(stored: unknown): stored is Intent {
  if (typeof stored !== 'object' || stored === null) return false;
  const { name, type, birthday, requestId, since, present = [] } = stored as { readonly [name: string]: unknown };
  const isText = (value: unknown): boolean => typeof value === 'string';
  return [name, type, birthday, requestId, since].every(isText) && Array.isArray(present) && present.every(isText);
}

/** Whether two pets have the same name, type and birthday. */
export const isAlike = (one: StorePet, other: StorePet): boolean => tripleOf(one) === tripleOf(other);

/** A key that is equal for pets that are alike. */
export const tripleOf = ({ name, type, birthday }: StorePet): string => JSON.stringify([name, type, birthday]);

/** The id that the status records. Undefined also for an empty one, which no pet has, and for anything but a text. */
export function recordedId({ status }: Pet): string | undefined {
  const id: unknown = status?.id;
  return typeof id === 'string' && id !== '' ? id : undefined;
}

/** Whether the store has accepted the current spec. */
export const isStored = (pet: Pet): boolean => recordedId(pet) !== undefined && currentReady(pet)?.status === 'True';
