import { expect, test } from '@jest/globals';
import { FairShares } from '../../../../packages/petstore/src/server/fair-shares.ts';

/** Takes shares of ten, and notes those that were revoked. */
class Clients {
  readonly revoked: string[] = [];
  readonly #shares = new FairShares(10);
  #taken = 0;

  take(client: string, amount = 1) {
    this.#taken += 1;
    const name = `${client}${this.#taken}`;
    return this.#shares.take({ client, revoke: () => void this.revoked.push(name) }, amount);
  }
}

test('over the limit, the client that holds the most loses what it has held for the longest', () => {
  const clients = new Clients();
  clients.take('modest', 2);
  for (let more = 0; more < 8; more += 1) clients.take('greedy');
  expect(clients.revoked).toEqual([]);
  clients.take('modest');
  expect(clients.revoked).toEqual(['greedy2']);
  clients.take('newcomer', 3);
  expect(clients.revoked).toEqual(['greedy2', 'greedy3', 'greedy4', 'greedy5']);
});

test('a lone client has the whole amount, and what it takes then replaces what it took first', () => {
  const clients = new Clients();
  for (let more = 0; more < 12; more += 1) clients.take('lone');
  expect(clients.revoked).toEqual(['lone1', 'lone2']);
});

test('a share counts as much as it has grown by', () => {
  const clients = new Clients();
  const large = clients.take('large');
  clients.take('large');
  for (let more = 0; more < 3; more += 1) clients.take('many');
  large.grow(5);
  expect(clients.revoked).toEqual([]);
  large.grow(1);
  expect(clients.revoked).toEqual(['large1']);
  // What still arrives of it counts no more.
  large.grow(100);
  expect(clients.revoked).toEqual(['large1']);
});

test('a share that ended frees its amount, once', () => {
  const clients = new Clients();
  const ended = clients.take('a', 10);
  ended[Symbol.dispose]();
  ended[Symbol.dispose]();
  ended.grow(100);
  clients.take('b', 10);
  expect(clients.revoked).toEqual([]);
  clients.take('c', 1);
  expect(clients.revoked).toEqual(['b2']);
});

test('a share larger than the whole amount is revoked, and takes nothing from others', () => {
  const clients = new Clients();
  clients.take('a', 3);
  clients.take('b', 11);
  expect(clients.revoked).toEqual(['b2']);
});
