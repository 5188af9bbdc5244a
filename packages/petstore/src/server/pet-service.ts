import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code, ConnectError, createContextKey, type HandlerContext, type ServiceImpl } from '@connectrpc/connect';
import { quoteText } from '@echoperator/runtime/client';
import type { PetSchema, PetStore } from '../wire/generated/petstore_pb.js';
import { requestIdHeader, requestIdsKeptHeader } from '../wire/headers.ts';
import { InvalidRequestError } from './errors.ts';
import { checkedFilter } from './filter.ts';
import type { PetDatabase } from './pet-database.ts';
import type { NamedRequest } from './request-log.ts';
import type { Sampler } from './sampler.ts';
import { type SearchClient, SearchPlaces } from './search-places.ts';
import { checkedList, checkedNewPet, checkedPet, type StoredPet } from './stored-pet.ts';

/** Options of {@link petService}. */
export interface PetServiceOptions {
  readonly database: PetDatabase;
  readonly sampler: Sampler;
  /** How long request ids are remembered, in milliseconds. Clients learn it from a header. */
  readonly requestsKeptMs: number;
  /**
   * How long a client may take to read a search, in milliseconds. An open search keeps old pages of the file. If the
   * client reads on after that time, it gets DeadlineExceeded. If the client does not read, the server cancels the
   * search.
   */
  readonly searchTimeoutMs: number;
}

/** The client of a call, which the server sets. */
export const callClient = createContextKey<SearchClient>({ name: '', cancelSearch: () => {} });

/** Each search holds a connection to the database. */
const maxSearches = 64;

/** The five calls. {@link observation} converts thrown errors to responses. */
export function petService(options: PetServiceOptions): ServiceImpl<typeof PetStore> {
  const { database, sampler, requestsKeptMs, searchTimeoutMs } = options;
  const places = new SearchPlaces(maxSearches);
  return {
    addPets: ({ pets }, context) => {
      const checked = checkedList('pets', pets).map(checkedNewPet);
      return { ids: [...database.add(checked, namedRequest(context, checked))] };
    },
    updatePets: ({ pets }, context) => {
      const checked = checkedList('pets', pets).map(checkedPet);
      database.update(checked, namedRequest(context, checked));
      return {};
    },
    deletePets: ({ ids }, context) => {
      database.delete(checkedList('ids', ids), namedRequest(context, ids));
      return {};
    },
    async *searchPets(request, context) {
      const filter = checkedFilter(request);
      using _ = places.take(context.values.get(callClient));
      context.responseHeader.set(requestIdsKeptHeader, String(Math.floor(requestsKeptMs / 1000)));
      const deadlineMs = performance.now() + searchTimeoutMs;
      for (const pet of database.search(filter)) {
        context.signal.throwIfAborted();
        if (performance.now() > deadlineMs) {
          throw new ConnectError(
            `the client did not read the search within ${searchTimeoutMs} ms`,
            Code.DeadlineExceeded,
          );
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

/** @throws InvalidRequestError for an invalid request id. */
function namedRequest({ requestHeader, method }: HandlerContext, content: unknown): NamedRequest | undefined {
  const id = requestHeader.get(requestIdHeader);
  if (id === null) return undefined;
  if (/^[!-~]{1,200}$/.test(id)) return { id, content: JSON.stringify([method.name, content]) };
  throw new InvalidRequestError(`${requestIdHeader}: got ${quoteText(id)}, takes 1 to 200 visible ASCII characters`);
}

const wirePet = ({ id, name, type, birthday }: StoredPet): MessageInitShape<typeof PetSchema> => ({
  id,
  name,
  type,
  birthday: { ...birthday },
});
