import { quoteText } from '@echoperator/runtime/client';
import type { CalendarDay } from '../wire/calendar-day.ts';
import { dayFromText, dayText, isCalendarDay } from '../wire/calendar-day.ts';
import type { Date as WireDate } from '../wire/generated/google/type/date_pb.js';
import type { Pet } from '../wire/generated/petstore_pb.js';
import { PetType } from '../wire/generated/petstore_pb.js';
import { trimmedName } from '../wire/trimmed-name.ts';
import { InvalidRequestError } from './errors.ts';

/** A pet without its id. */
export interface PetFields {
  readonly name: string;
  readonly type: PetType;
  readonly birthday: CalendarDay;
}

/** A pet in the pet store. */
export interface StoredPet extends PetFields {
  readonly id: string;
}

/** A row of the table. ISO 8601 days compare as text in their chronological order. */
export interface PetRow {
  readonly id: string;
  readonly name: string;
  readonly type: number;
  readonly birthday: string;
}

const types: readonly PetType[] = [PetType.PTCanine, PetType.PTFeline, PetType.PTBird, PetType.PTReptile];

/** Limits how long one request can delay the others, because each pet is a write to the database. */
const maxItems = 1000;

/** @throws InvalidRequestError for a list that is too long. */
export function checkedList<T>(field: string, items: readonly T[]): readonly T[] {
  if (items.length <= maxItems) return items;
  throw new InvalidRequestError(`${field}: got ${items.length}, takes at most ${maxItems} in one request`);
}

/**
 * @throws InvalidRequestError if the pet has an id, which only the pet store assigns, and as {@link checkedFields}
 *   does.
 */
export function checkedNewPet(pet: Pet): PetFields {
  if (pet.id !== '') throw new InvalidRequestError(`pets.id: got ${quoteText(pet.id)}, a new pet must not have an id`);
  return checkedFields(pet);
}

/** @throws InvalidRequestError if the pet has no id, and as {@link checkedFields} does. */
export function checkedPet(pet: Pet): StoredPet {
  if (pet.id === '') throw new InvalidRequestError('pets.id: got "", takes the id of a pet');
  return { id: pet.id, ...checkedFields(pet) };
}

/** @throws InvalidRequestError for a blank name, a name with NUL, an unknown type, and a day that does not exist. */
function checkedFields({ name, type, birthday }: Pet): PetFields {
  return {
    name: checkedName(name),
    type: checkedType('pets.type', type),
    birthday: checkedDay('pets.birthday', birthday),
  };
}

/** Trims Unicode white space, as the original pet store does. */
function checkedName(name: string): string {
  const trimmed = trimmedName(name);
  if (trimmed === '')
    throw new InvalidRequestError(`pets.name: got ${quoteText(name)}, takes a name that is not blank`);
  if (trimmed.includes('\0')) throw new InvalidRequestError('pets.name: takes a name without NUL');
  return trimmed;
}

/** @throws InvalidRequestError for PTUnknown and for an unknown number. */
export function checkedType(field: string, type: PetType): PetType {
  if (types.includes(type)) return type;
  throw new InvalidRequestError(
    `${field}: got ${PetType[type] ?? type}, takes one of ${types.map((each) => PetType[each]).join(', ')}`,
  );
}

/** @throws InvalidRequestError for a missing or incomplete date, and for a day that does not exist. */
export function checkedDay(field: string, date: WireDate | undefined): CalendarDay {
  if (date === undefined) throw new InvalidRequestError(`${field}: is missing, takes a date`);
  const { year, month, day } = date;
  if (isCalendarDay(date)) return { year, month, day };
  throw new InvalidRequestError(`${field}: got ${dayText(date)}, takes an existing day in the years 1 to 9999`);
}

/** @throws RangeError if the row's birthday is not a day. */
export function petOfRow({ id, name, type, birthday }: PetRow): StoredPet {
  const day = dayFromText(birthday);
  if (day === undefined)
    throw new RangeError(`the birthday of pet ${id} is ${JSON.stringify(birthday)}, which is not a day`);
  return { id, name, type, birthday: day };
}
