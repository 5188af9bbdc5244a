import type { CalendarDay, Pet, WireDate } from '../petstore-wire/index.ts';
import { dayFromText, dayText, isCalendarDay, PetType } from '../petstore-wire/index.ts';
import { InvalidRequestError } from './errors.ts';

/** What is kept of a pet beside its id. */
export interface PetFields {
  readonly name: string;
  readonly type: PetType;
  readonly birthday: CalendarDay;
}

/** A pet in the store. */
export interface StoredPet extends PetFields {
  readonly id: string;
}

/** As a row of the table has them: days compare as texts as they do as days. */
export interface PetRow {
  readonly id: string;
  readonly name: string;
  readonly type: number;
  readonly birthday: string;
}

const types: readonly PetType[] = [PetType.PTCanine, PetType.PTFeline, PetType.PTBird, PetType.PTReptile];

/** @throws InvalidRequestError for an id, which the store itself gives, and for what {@link checkedFields} refuses. */
export function checkedNewPet(pet: Pet): PetFields {
  if (pet.id !== '') throw new InvalidRequestError(`pets.id: got ${JSON.stringify(pet.id)}, a new pet has none`);
  return checkedFields(pet);
}

/** @throws InvalidRequestError for a pet without an id, and for what {@link checkedFields} refuses. */
export function checkedPet(pet: Pet): StoredPet {
  if (pet.id === '') throw new InvalidRequestError('pets.id: got "", takes the id of a pet');
  return { id: pet.id, ...checkedFields(pet) };
}

/** @throws InvalidRequestError for a blank name, one with NUL in it, a type or a day that there is not. */
function checkedFields({ name, type, birthday }: Pet): PetFields {
  return {
    name: checkedName(name),
    type: checkedType('pets.type', type),
    birthday: checkedDay('pets.birthday', birthday),
  };
}

/** White space is what Unicode calls so, as in the original. */
function checkedName(name: string): string {
  const trimmed = name.replaceAll(/^\p{White_Space}+|\p{White_Space}+$/gu, '');
  if (trimmed === '')
    throw new InvalidRequestError(`pets.name: got ${JSON.stringify(name)}, takes a name that is not blank`);
  if (trimmed.includes('\0')) throw new InvalidRequestError('pets.name: takes a name without NUL');
  return trimmed;
}

/** @throws InvalidRequestError for PTUnknown, and for a number that is no type. */
export function checkedType(field: string, type: PetType): PetType {
  if (types.includes(type)) return type;
  throw new InvalidRequestError(
    `${field}: got ${PetType[type] ?? type}, takes one of ${types.map((each) => PetType[each]).join(', ')}`,
  );
}

/** @throws InvalidRequestError for a day that there is not, or that is not whole. */
export function checkedDay(field: string, date: WireDate | undefined): CalendarDay {
  if (date === undefined) throw new InvalidRequestError(`${field}: is absent, takes a date`);
  const { year, month, day } = date;
  if (isCalendarDay(date)) return { year, month, day };
  throw new InvalidRequestError(`${field}: got ${dayText(date)}, takes a day that there is, of the years 1 to 9999`);
}

/** @throws RangeError for a day that no version of the store has written. */
export function petOfRow({ id, name, type, birthday }: PetRow): StoredPet {
  const day = dayFromText(birthday);
  if (day === undefined)
    throw new RangeError(`the birthday of pet ${id} is ${JSON.stringify(birthday)}, which is no day`);
  return { id, name, type, birthday: day };
}
