import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from '@connectrpc/connect';
import { type PetSchema, type PetStore, requestIdHeader, requestIdsKeptHeader } from '../petstore-wire/index.ts';
import { InvalidRequestError } from './errors.ts';
import { checkedFilter } from './filter.ts';
import type { PetDatabase } from './pet-database.ts';
import type { NamedRequest } from './request-log.ts';
import type { Sampler } from './sampler.ts';
import { checkedNewPet, checkedPet, type StoredPet } from './stored-pet.ts';

/** What the service stands on. */
export interface PetServiceOptions {
  readonly database: PetDatabase;
  readonly sampler: Sampler;
  /** What clients are told of how long request ids are remembered. */
  readonly requestsKeptMs: number;
  /**
   * A client may read what it has searched for so slowly, in milliseconds, and no slower: a search keeps old pages of the file.
   * One that reads on later is told; one that does not is for the server to break off.
   */
  readonly searchTimeoutMs: number;
}

/** The five calls. What they throw is made an answer by {@link asConnectError}. */
export function petService(options: PetServiceOptions): ServiceImpl<typeof PetStore> {
  const { database, sampler, requestsKeptMs, searchTimeoutMs } = options;
  return {
    addPets: ({ pets }, context) => {
      const checked = pets.map(checkedNewPet);
      return { ids: [...database.add(checked, namedRequest(context, checked))] };
    },
    updatePets: ({ pets }, context) => {
      const checked = pets.map(checkedPet);
      database.update(checked, namedRequest(context, checked));
      return {};
    },
    deletePets: ({ ids }, context) => {
      database.delete(ids, namedRequest(context, ids));
      return {};
    },
    async *searchPets(request, context) {
      const filter = checkedFilter(request);
      context.responseHeader.set(requestIdsKeptHeader, String(Math.floor(requestsKeptMs / 1000)));
      const deadlineMs = performance.now() + searchTimeoutMs;
      for (const pet of database.search(filter)) {
        context.signal.throwIfAborted();
        if (performance.now() > deadlineMs) {
          throw new ConnectError(`the search was not read within ${searchTimeoutMs} ms`, Code.DeadlineExceeded);
        }
        yield wirePet(pet);
      }
    },
    changeSampler: (request) => {
      sampler.change(request);
      return {};
    },
  };
}

/** @throws InvalidRequestError for a request id that is none. */
function namedRequest({ requestHeader, method }: HandlerContext, asked: unknown): NamedRequest | undefined {
  const id = requestHeader.get(requestIdHeader);
  if (id === null) return undefined;
  if (/^[!-~]{1,200}$/.test(id)) return { id, asked: JSON.stringify([method.name, asked]) };
  throw new InvalidRequestError(
    `${requestIdHeader}: got ${JSON.stringify(id)}, takes 1 to 200 visible characters of ASCII`,
  );
}

const wirePet = ({ id, name, type, birthday }: StoredPet): MessageInitShape<typeof PetSchema> => ({
  id,
  name,
  type,
  birthday: { ...birthday },
});
