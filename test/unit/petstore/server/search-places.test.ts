import { expect, test } from '@jest/globals';
import { TooBusyError } from '../../../../packages/petstore/src/server/errors.ts';
import { type SearchClient, SearchPlaces } from '../../../../packages/petstore/src/server/search-places.ts';

/** Begins searches, and notes those that were cancelled. */
class Searches {
  readonly cancelled: string[] = [];
  readonly #places = new SearchPlaces(4);
  #begun = 0;

  begin(name: string): Disposable {
    this.#begun += 1;
    const search = `${name}${this.#begun}`;
    const client: SearchClient = { name, cancelSearch: () => void this.cancelled.push(search) };
    return this.#places.take(client);
  }
}

test('a lone client may take every place, and no more', () => {
  const searches = new Searches();
  const first = searches.begin('a');
  for (let more = 0; more < 3; more += 1) searches.begin('a');
  expect(() => searches.begin('a')).toThrow(new TooBusyError('4 searches are already in flight'));
  expect(searches.cancelled).toEqual([]);
  first[Symbol.dispose]();
  searches.begin('a');
});

test('the client with the most places gives its oldest to clients with fewer, until all have as many', () => {
  const searches = new Searches();
  for (let more = 0; more < 4; more += 1) searches.begin('greedy');
  searches.begin('b');
  searches.begin('b');
  expect(searches.cancelled).toEqual(['greedy1', 'greedy2']);
  expect(() => searches.begin('b')).toThrow(TooBusyError);
  expect(() => searches.begin('greedy')).toThrow(TooBusyError);
  searches.begin('c');
  expect(searches.cancelled).toEqual(['greedy1', 'greedy2', 'greedy3']);
});

test('a search that was cancelled frees no place of another when it ends', () => {
  const searches = new Searches();
  const evicted = searches.begin('greedy');
  for (let more = 0; more < 3; more += 1) searches.begin('greedy');
  searches.begin('b');
  evicted[Symbol.dispose]();
  expect(() => searches.begin('greedy')).toThrow(TooBusyError);
});
