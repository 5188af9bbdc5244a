import { dayText } from '../wire/calendar-day.ts';
import type { PetType, SearchPetsReq } from '../wire/generated/petstore_pb.js';
import { InvalidRequestError } from './errors.ts';
import { checkedDay, checkedList, checkedType } from './stored-pet.ts';

/** The criteria of a search: a pet must meet all of them. */
export interface Filter {
  /** Empty: any. */
  readonly names: readonly string[];
  /** Empty: any. */
  readonly types: readonly PetType[];
  /** `from` is inclusive, `before` exclusive; both as ISO 8601. Absent: any. */
  readonly born?: { readonly from: string; readonly before: string } | undefined;
}

/** @throws InvalidRequestError for a long list, for an unknown type, and for a range without a start or an end. */
export function checkedFilter({ names, types, birthdateRange }: SearchPetsReq): Filter {
  return {
    names: checkedList('names', names),
    types: checkedList('types', types).map((type) => checkedType('types', type)),
    born: birthdateRange && checkedRange(birthdateRange),
  };
}

function checkedRange({ start, end }: NonNullable<SearchPetsReq['birthdateRange']>): NonNullable<Filter['born']> {
  if (start === undefined || end === undefined) {
    const missing = start === undefined ? 'start' : 'end';
    throw new InvalidRequestError(`birthdate_range.${missing}: is missing; a range needs a start and an end`);
  }
  return {
    from: dayText(checkedDay('birthdate_range.start', start)),
    before: dayText(checkedDay('birthdate_range.end', end)),
  };
}

/** Builds the query. All names go into one parameter, since SQLite limits the number of parameters. */
export function queryOf({ names, types, born }: Filter): {
  readonly sql: string;
  readonly parameters: readonly string[];
} {
  const conditions: string[] = [];
  const parameters: string[] = [];
  const add = (condition: string, ...values: readonly string[]): void => {
    conditions.push(condition);
    parameters.push(...values);
  };
  if (names.length > 0) add('name IN (SELECT value FROM json_each(?))', JSON.stringify(names));
  if (types.length > 0) add('type IN (SELECT value FROM json_each(?))', JSON.stringify(types));
  if (born !== undefined) add('birthday >= ? AND birthday < ?', born.from, born.before);
  const where = conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`;
  return { sql: `SELECT id, name, type, birthday FROM pets${where}`, parameters };
}
