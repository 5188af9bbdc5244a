import { create } from '@bufbuild/protobuf';
import { createClient } from '@connectrpc/connect';
import { type CalendarDay, dayFromText, dayText } from '../wire/calendar-day.ts';
import { type ChannelOptions, openChannel } from '../wire/channel.ts';
import { DateSchema } from '../wire/generated/google/type/date_pb.js';
import { type Pet, PetStore, PetType } from '../wire/generated/petstore_pb.js';

/** The names of the types on the command line. */
const typeNames: ReadonlyMap<string, PetType> = new Map([
  ['dog', PetType.PTCanine],
  ['cat', PetType.PTFeline],
  ['bird', PetType.PTBird],
  ['reptile', PetType.PTReptile],
]);

/** Invalid command-line arguments. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** A pet as the command line prints it. */
export interface ShownPet {
  readonly id: string;
  readonly name: string;
  readonly type: string;
  /** ISO 8601: 2020-01-31. */
  readonly birthday: string;
}

/** The criteria of a list. Empty or absent: any. */
export interface ListCriteria {
  readonly names: readonly string[];
  readonly types: readonly string[];
  readonly bornFrom?: string | undefined;
  readonly bornBefore?: string | undefined;
}

/** A client of a pet store. */
export class RemotePets implements Disposable {
  readonly #channel: ReturnType<typeof openChannel>;
  readonly #client: ReturnType<typeof createClient<typeof PetStore>>;

  constructor(options: ChannelOptions) {
    this.#channel = openChannel(options);
    this.#client = createClient(PetStore, this.#channel.transport);
  }

  /**
   * @returns the id of the new pet.
   * @throws UsageError for an invalid type or birthday; ConnectError for an error response.
   */
  async add(pet: Omit<ShownPet, 'id'>): Promise<string> {
    const { name } = pet;
    const { ids } = await this.#client.addPets({
      pets: [{ name, type: typeOf(pet.type), birthday: dayOf(pet.birthday) }],
    });
    return ids[0] ?? '';
  }

  /** Yields the pets as they arrive. Throws as {@link add} does. */
  async *list({ names, types, bornFrom, bornBefore }: ListCriteria): AsyncGenerator<ShownPet> {
    const isRange = bornFrom !== undefined || bornBefore !== undefined;
    const range = {
      start: bornFrom === undefined ? dayMessage({ year: 1, month: 1, day: 1 }) : dayOf(bornFrom),
      end: bornBefore === undefined ? dayMessage({ year: 9999, month: 12, day: 31 }) : dayOf(bornBefore),
    };
    const filter = { names: [...names], types: types.map(typeOf), ...(isRange && { birthdateRange: range }) };
    // There is no timeout, because a long list takes a long time.
    for await (const pet of this.#client.searchPets(filter, { timeoutMs: 0 })) yield toShownPet(pet);
  }

  /** Replaces the pet with this id. Throws as {@link add} does. */
  async update({ id, name, type, birthday }: ShownPet): Promise<void> {
    await this.#client.updatePets({ pets: [{ id, name, type: typeOf(type), birthday: dayOf(birthday) }] });
  }

  /** Ignores ids that do not exist. */
  async delete(ids: readonly string[]): Promise<void> {
    await this.#client.deletePets({ ids: [...ids] });
  }

  [Symbol.dispose](): void {
    this.#channel.close();
  }
}

function toShownPet({ id, name, type, birthday }: Pet): ShownPet {
  const [word = String(type)] = [...typeNames].find(([, each]) => each === type) ?? [];
  return { id, name, type: word, birthday: birthday === undefined ? '' : dayText(birthday) };
}

function typeOf(word: string): PetType {
  const type = typeNames.get(word);
  if (type !== undefined) return type;
  throw new UsageError(`type: got ${JSON.stringify(word)}, takes one of ${[...typeNames.keys()].join(', ')}`);
}

function dayOf(text: string) {
  const day = dayFromText(text);
  if (day !== undefined) return dayMessage(day);
  throw new UsageError(`date: got ${JSON.stringify(text)}, takes a day like 2020-01-31`);
}

const dayMessage = (day: CalendarDay) => create(DateSchema, day);
