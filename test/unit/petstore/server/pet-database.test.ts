import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { PetType } from '@echoperator/petstore/wire';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { DatabaseError } from '../../../../packages/petstore/src/server/database.ts';
import { RequestIdTakenError, UnknownPetError } from '../../../../packages/petstore/src/server/errors.ts';
import { PetDatabase } from '../../../../packages/petstore/src/server/pet-database.ts';

let folder: string;
let path: string;
let database: PetDatabase;
let nowMs: number;

const hourMs = 3_600_000;
const open = (): PetDatabase => new PetDatabase({ path, requestsKeptMs: hourMs, now: () => nowMs });

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pet-database-'));
  path = join(folder, 'pets.db');
  nowMs = 1_800_000_000_000;
  database = open();
});
afterEach(async () => {
  database[Symbol.dispose]();
  await rm(folder, { recursive: true });
});

const thor = { name: 'Thor', type: PetType.PTCanine, birthday: { year: 2021, month: 4, day: 1 } };
const tron = { name: 'Tron', type: PetType.PTFeline, birthday: { year: 2020, month: 6, day: 25 } };
const any = { names: [], types: [] };
const names = (filter: Parameters<PetDatabase['search']>[0] = any) =>
  [...database.search(filter)].map(({ name }) => name).sort();

describe('the database', () => {
  test('has what was written, also when it is opened again', () => {
    const [id = ''] = database.add([thor, tron]);
    database.update([{ ...thor, id, name: 'Loki' }]);
    database[Symbol.dispose]();
    database = open();
    expect(names()).toEqual(['Loki', 'Tron']);
    expect([...database.search({ ...any, names: ['Loki'] })]).toEqual([{ id, ...thor, name: 'Loki' }]);
    expect(database.count()).toBe(2);
  });

  test('synchronises its log at each commit', () => {
    const reader = new DatabaseSync(path);
    expect(reader.prepare('PRAGMA journal_mode').get()).toEqual({ journal_mode: 'wal' });
    reader.close();
  });

  test('updates all or none', () => {
    const [id = ''] = database.add([thor]);
    expect(() =>
      database.update([
        { ...tron, id },
        { ...tron, id: 'nobody' },
      ]),
    ).toThrow(UnknownPetError);
    expect(() => database.update([{ ...tron, id: 'nobody' }])).toThrow('no pet has the id nobody');
    expect(names()).toEqual(['Thor']);
  });

  test('finds by what pets are, not by what they were', () => {
    const [id = ''] = database.add([thor]);
    database.update([{ ...tron, id }]);
    expect(names({ ...any, names: ['Thor'] })).toEqual([]);
    expect(names({ ...any, types: [PetType.PTCanine] })).toEqual([]);
    expect(names({ ...any, born: { from: '2021-01-01', before: '2022-01-01' } })).toEqual([]);
    expect(
      names({ names: ['Tron'], types: [PetType.PTFeline], born: { from: '2020-06-25', before: '2020-06-26' } }),
    ).toEqual(['Tron']);
  });

  test('takes any number of names, whatever is in them', () => {
    const odd = ["Rob'); DROP TABLE pets;--", '"', '\\', '%', '世界', '\u0001', '😀'];
    database.add(odd.map((name) => ({ ...thor, name })));
    for (const name of odd) expect(names({ ...any, names: [name] })).toEqual([name]);
    const many = Array.from({ length: 50_000 }, (_, index) => `name ${index}`);
    expect(names({ ...any, names: [...many, '%'] })).toEqual(['%']);
  });

  test('a search sees one moment, and holds up no writer', () => {
    database.add([thor, tron]);
    const search = database.search(any);
    const first = search.next();
    expect(first.done).toBe(false);
    const { id = '' } = first.value ?? {};
    database.delete([...database.search(any)].map((pet) => pet.id));
    expect(names()).toEqual([]);
    expect([...search]).toHaveLength(1);
    expect(id).not.toBe('');
    expect(database.searches).toBe(0);
  });

  test('can be closed while it is searched', () => {
    database.add([thor, tron]);
    const search = database.search(any);
    search.next();
    database[Symbol.dispose]();
    expect(() => search.next()).toThrow();
    database = open();
  });

  test('keeps settings', () => {
    database.setSetting('a', '1');
    database.setSetting('a', '2');
    expect([database.setting('a'), database.setting('b')]).toEqual(['2', undefined]);
  });
});

describe('a file that cannot be used is refused by its name', () => {
  test('no database', async () => {
    const other = join(folder, 'other.db');
    await writeFile(other, 'not a database, but long enough to be read as one'.repeat(100));
    expect(() => new PetDatabase({ path: other, requestsKeptMs: hourMs })).toThrow(DatabaseError);
    expect(() => new PetDatabase({ path: other, requestsKeptMs: hourMs })).toThrow(other);
  });

  test('nowhere', () => {
    expect(() => new PetDatabase({ path: join(folder, 'no', 'pets.db'), requestsKeptMs: hourMs })).toThrow(
      DatabaseError,
    );
  });

  test('of a newer version', () => {
    const newer = new DatabaseSync(path);
    newer.exec('PRAGMA user_version = 99');
    newer.close();
    expect(() => open()).toThrow(/schema version 99 is newer/);
  });
});

describe('a named request', () => {
  const request = { id: 'one', content: 'thor' };

  test('is done once', () => {
    const ids = database.add([thor], request);
    expect(database.add([thor], request)).toEqual(ids);
    expect(names()).toEqual(['Thor']);
  });

  test('is done once over a restart, and answered the same when its pet is gone', () => {
    const ids = database.add([thor], request);
    database[Symbol.dispose]();
    database = open();
    database.delete(ids);
    expect(database.add([thor], request)).toEqual(ids);
    expect(names()).toEqual([]);
  });

  test('that failed was not done, and may come again', () => {
    expect(() => database.update([{ ...thor, id: 'nobody' }], request)).toThrow(UnknownPetError);
    expect(database.add([thor], request)).toHaveLength(1);
  });

  test('is kept as a digest, however large it is', () => {
    const large = { id: 'large', content: 'x'.repeat(4 * 1024 * 1024) };
    const ids = database.add([thor], large);
    const reader = new DatabaseSync(path, { readOnly: true });
    const [bytes] = Object.values(reader.prepare('SELECT length(asked) FROM requests').get() ?? {});
    reader.close();
    expect(bytes).toBeLessThan(100);
    expect(database.add([thor], large)).toEqual(ids);
  });

  test('is refused as another', () => {
    database.add([thor], request);
    expect(() => database.add([tron], { id: 'one', content: 'tron' })).toThrow(RequestIdTakenError);
    expect(names()).toEqual(['Thor']);
  });

  test('is remembered as long as a pet that it has added exists, and at least for a time', () => {
    const ids = database.add([thor, tron], request);
    for (let day = 1; day <= 3; day += 1) {
      nowMs += 24 * hourMs;
      // Each request forgets expired ones.
      database.delete([], { id: `day ${day}`, content: '' });
      expect(database.add([thor, tron], request)).toEqual(ids);
    }
    database.delete(ids.slice(1));
    nowMs += 24 * hourMs;
    expect(database.add([thor, tron], request)).toEqual(ids);
    nowMs += 24 * hourMs;
    database.delete(ids);
    expect(database.add([thor, tron], request)).not.toEqual(ids);
    const again = database.add([tron], { id: 'two', content: 'tron' });
    database.delete(again);
    nowMs += hourMs - 1;
    expect(database.add([tron], { id: 'two', content: 'tron' })).toEqual(again);
    expect(names()).toEqual(['Thor', 'Tron']);
  });

  test('that is forgotten takes no room', () => {
    for (let index = 0; index < 120; index += 1) database.delete([], { id: `old ${index}`, content: '' });
    for (let index = 0; index < 120; index += 1) database.add([thor], { id: `pet ${index}`, content: '' });
    nowMs += hourMs;
    for (let index = 0; index < 10; index += 1) database.delete([], { id: `new ${index}`, content: '' });
    const reader = new DatabaseSync(path, { readOnly: true });
    expect(reader.prepare('SELECT count(*) AS count FROM requests').get()).toEqual({ count: 130 });
    reader.close();
  });
});
