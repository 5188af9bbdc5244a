import { expect, test } from '@jest/globals';
import { earlierServices } from '../../../../src/controllers/book-store/app.ts';
import { settingsOf } from '../../../../src/controllers/book-store/desired.ts';
import type { Service } from '../../../../src/controllers/built-in-kinds.ts';
import { bookStore } from './objects.ts';

const store = bookStore({ bookApp: { serviceName: 'app' }, bookDB: { serviceName: 'db' } });
const owner = { kind: 'BookStore', name: 'shop', uid: store.metadata.uid, controller: true };
const service = (name: string, clusterIP: string, metadata: object = {}) =>
  ({ metadata: { name, ownerReferences: [owner], ...metadata }, spec: { clusterIP } }) as unknown as Service;

const namesOf = (found: readonly Service[]) => found.map(({ metadata }) => metadata.name);
const look = (...services: readonly Service[]) =>
  namesOf(earlierServices({ byOwner: () => services }, store, settingsOf(store)));

test('a Service of a name that is not asked for any more is not wanted', () => {
  const services = [service('app', '10.0.0.1'), service('db', 'None'), service('old', 'None')];
  expect(look(...services)).toEqual(['old']);
});

test('a Service that goes already, or is another’s, is left alone', () => {
  const leaving = service('old', 'None', { deletionTimestamp: '2026-01-02T03:04:05Z' });
  const other = service('old', 'None', { ownerReferences: [{ ...owner, controller: false }] });
  expect(look(leaving, other)).toEqual([]);
});
