import type { Pet } from '../../api/index.ts';
import { dayFromText, dayText } from '../../petstore-wire/index.ts';
import { type Condition, findCondition } from '../../runtime/index.ts';

/** A pet as the store is to have it. */
export interface StorePet {
  readonly name: string;
  readonly type: Pet['spec']['type'];
  /** The day in UTC: 2020-01-31. */
  readonly birthday: string;
}

/** The schema allows the spec, but no pet can be made of it. The message names the field. */
export class InvalidPetError extends Error {
  override readonly name = 'InvalidPetError';
}

/**
 * The pet that a spec asks for, as the store keeps it: without white space around its name (what Unicode calls so), born on a
 * day of UTC.
 *
 * @throws InvalidPetError for a blank name and for a time that is none.
 */
export function wantedPet({ name, type, birthday }: Pet['spec']): StorePet {
  const trimmed = name.replaceAll(/^\p{White_Space}+|\p{White_Space}+$/gu, '');
  if (trimmed === '')
    throw new InvalidPetError(`spec.name: got ${JSON.stringify(name)}, takes a name that is not blank`);
  return { name: trimmed, type, birthday: dayInUtc(birthday) };
}

/** RFC 3339 requires a time zone; Date.parse would read a text without one as local time. */
const rfc3339 = /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$/;

function dayInUtc(birthday: string): string {
  const time = new Date(birthday.toUpperCase());
  const written = dayFromText(birthday.slice(0, 10));
  if (rfc3339.test(birthday) && written !== undefined && !Number.isNaN(time.getTime())) {
    const day = { year: time.getUTCFullYear(), month: time.getUTCMonth() + 1, day: time.getUTCDate() };
    if (dayFromText(dayText(day)) !== undefined) return dayText(day);
  }
  throw new InvalidPetError(
    `spec.birthday: got ${JSON.stringify(birthday)}, takes a time of RFC 3339 in the years 1 to 9999, as 2020-01-31T00:00:00Z`,
  );
}

/** Whether two pets differ by nothing but their ids. */
export const isAlike = (one: StorePet, other: StorePet): boolean => tripleOf(one) === tripleOf(other);

/** A key that only alike pets share. */
export const tripleOf = ({ name, type, birthday }: StorePet): string => JSON.stringify([name, type, birthday]);

/** The condition `Ready`, if it is about the present generation of the Pet. */
export function presentReady({ metadata, status }: Pet): Condition | undefined {
  const ready = findCondition(status?.conditions, 'Ready');
  return ready?.observedGeneration === metadata.generation ? ready : undefined;
}

/** Whether the store has been told of the present spec, and has taken it. */
export const isStored = (pet: Pet): boolean => pet.status?.id !== undefined && presentReady(pet)?.status === 'True';
