import { expect, test } from '@jest/globals';
import { noLongerWanted, otherwiseHeadless } from '../../../../src/controllers/book-store/services.ts';
import { settingsOf } from '../../../../src/controllers/book-store/settings.ts';
import type { Service } from '../../../../src/controllers/built-in-kinds.ts';
import type { ReadonlyStore } from '../../../../src/runtime/index.ts';
import { bookStore } from './objects.ts';

const store = bookStore({ bookApp: { serviceName: 'app' }, bookDB: { serviceName: 'db' } });
const owner = { kind: 'BookStore', name: 'shop', uid: store.metadata.uid, controller: true };
const service = (name: string, clusterIP: string, metadata: object = {}) =>
  ({ metadata: { name, ownerReferences: [owner], ...metadata }, spec: { clusterIP } }) as unknown as Service;

const namesOf = (found: readonly Service[]) => found.map(({ metadata }) => metadata.name);
const look = (which: typeof noLongerWanted, ...services: readonly Service[]) =>
  namesOf(which({ byOwner: () => services } as unknown as ReadonlyStore<Service>, store, settingsOf(store)));

test('a Service of a name that is not asked for any more is not wanted', () => {
  const services = [service('app', '10.0.0.1'), service('db', 'None'), service('old', 'None')];
  expect(look(noLongerWanted, ...services)).toEqual(['old']);
});

test('a Service that is to be the other part’s is headless where it must not be, or the other way round', () => {
  expect(look(otherwiseHeadless, service('app', '10.0.0.1'), service('db', 'None'))).toEqual([]);
  expect(look(otherwiseHeadless, service('app', 'None'), service('db', '10.0.0.1'))).toEqual(['app', 'db']);
  expect(look(otherwiseHeadless, service('old', 'None'), service('older', '10.0.0.1'))).toEqual([]);
});

test('a Service that goes already, or is another’s, is left alone', () => {
  const leaving = service('app', 'None', { deletionTimestamp: '2026-01-02T03:04:05Z' });
  const other = service('app', 'None', { ownerReferences: [{ ...owner, controller: false }] });
  expect(look(otherwiseHeadless, leaving, other)).toEqual([]);
  expect(look(noLongerWanted, { ...leaving, metadata: { ...leaving.metadata, name: 'old' } })).toEqual([]);
});
