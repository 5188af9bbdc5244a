import { describe, expect, test } from '@jest/globals';
import type { Pet } from '../../../../src/kinds/pet/kind.ts';
import {
  InvalidPetError,
  isAlike,
  recordedId,
  recordedIntent,
  tripleOf,
  wantedPet,
} from '../../../../src/kinds/pet/store-pet.ts';

const spec = { name: 'Thor', type: 'dog', birthday: '2021-04-01T00:00:00Z' } as const;

describe('the pet that a spec asks for', () => {
  test.each([
    ['2021-04-01T00:00:00Z', '2021-04-01'],
    ['2021-04-01T23:59:59.999Z', '2021-04-01'],
    ['2021-04-01t23:59:59z', '2021-04-01'],
    ['2020-01-01T23:30:00-05:00', '2020-01-02'],
    ['2020-03-01T00:30:00+01:00', '2020-02-29'],
    ['0001-01-01T00:00:00Z', '0001-01-01'],
    ['9999-12-31T23:59:59Z', '9999-12-31'],
  ])('born at %s is born on %s', (birthday, day) => {
    expect(wantedPet({ ...spec, birthday }).birthday).toBe(day);
  });

  test.each([
    '2021-02-29T00:00:00Z',
    '2021-04-01T00:00:00',
    '2021-04-01',
    '2021-04-01T24:30:00Z',
    '2021-04-01T00:00:00+25:00',
    '0001-01-01T00:30:00+01:00',
    '9999-12-31T23:30:00-01:00',
    'yesterday',
    '',
  ])('born at %j is refused', (birthday) => {
    expect(() => wantedPet({ ...spec, birthday })).toThrow(InvalidPetError);
    expect(() => wantedPet({ ...spec, birthday })).toThrow(`spec.birthday: got ${JSON.stringify(birthday)}`);
  });

  test('has no white space around its name, like in the store', () => {
    expect(wantedPet({ ...spec, name: ' \u00a0Thor \u3000 ' }).name).toBe('Thor');
    expect(wantedPet({ ...spec, name: 'Thor Odinson' }).name).toBe('Thor Odinson');
    expect(() => wantedPet({ ...spec, name: '\u2003' })).toThrow(InvalidPetError);
  });

  test.each([
    ['name', ' '.repeat(1_000_000)],
    ['birthday', `2021-04-01T00:00:00.${'0'.repeat(1_000_000)}Z`],
  ])('with a %s of a megabyte is refused, and the error does not quote it whole', (field, text) => {
    const error = (() => {
      try {
        return wantedPet({ ...spec, [field]: text });
      } catch (thrown) {
        return thrown;
      }
    })();
    expect(error).toBeInstanceOf(InvalidPetError);
    expect(String(error)).toMatch(new RegExp(`^InvalidPetError: spec.${field}: got `));
    expect(String(error).length).toBeLessThan(5000);
  });

  test('is alike another only if all fields are equal', () => {
    const pet = wantedPet(spec);
    expect(isAlike(pet, { ...pet })).toBe(true);
    expect(isAlike(pet, { ...pet, type: 'cat' })).toBe(false);
    expect(tripleOf({ ...pet, name: 'a","dog' })).not.toBe(tripleOf({ ...pet, name: 'a' }));
  });
});

describe('a status of another shape', () => {
  const petWith = (status: unknown): Pet => ({ status }) as unknown as Pet;
  const intent = { ...spec, birthday: '2021-04-01', requestId: 'a', since: '2026-01-01T00:00:00Z' };

  test('records nothing', () => {
    for (const id of [5, null, {}, ['a'], '']) expect(recordedId(petWith({ id }))).toBeUndefined();
    const others = Object.keys(intent).map((name) => ({ ...intent, [name]: 5 }));
    for (const other of [5, null, 'x', [], ...others, { ...intent, present: 'x' }, { ...intent, present: [5] }])
      expect(recordedIntent(petWith({ intent: other }))).toBeUndefined();
  });

  test('differs from one that was written', () => {
    expect(recordedId(petWith({ id: 'a' }))).toBe('a');
    for (const written of [intent, { ...intent, present: ['b'] }])
      expect(recordedIntent(petWith({ intent: written }))).toEqual(written);
  });
});
