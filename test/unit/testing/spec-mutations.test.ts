import { defineKind } from '@echoperator/runtime';
import { expect, test } from '@jest/globals';
import * as Type from 'typebox';
import { specMutations, specRules } from '../../../packages/testing/src/spec-mutations.ts';

const Sized = defineKind({
  group: 'example.com',
  version: 'v1',
  kind: 'Sized',
  plural: 'sizeds',
  description: 'Has rules.',
  spec: Type.Object(
    {
      volume: Type.Object(
        { size: Type.Integer() },
        {
          'x-kubernetes-validations': [
            { rule: 'self.size >= oldSelf.size', message: 'it shrinks', messageExpression: "'from ' + oldSelf.size" },
          ],
        },
      ),
      names: Type.Optional(
        Type.Array(Type.String(), { 'x-kubernetes-validations': [{ rule: 'size(self) > 0', message: 'give a name' }] }),
      ),
    },
    { 'x-kubernetes-validations': [{ rule: 'has(self.names)', message: 'names are needed' }] },
  ),
  status: Type.Object({}),
});

test('the rules of the spec and of its properties are named, and told from a rejection by their messages', () => {
  const rules = specRules(Sized);
  expect(rules.map(({ name }) => name)).toEqual(['names are needed', 'volume: it shrinks', 'names: give a name']);
  const namedBy = (rejection: string) => rules.filter((rule) => rule.isNamedBy(rejection)).map(({ name }) => name);
  expect(namedBy('spec.volume: Invalid value: from 2 to 1')).toEqual(['volume: it shrinks']);
  expect(namedBy('spec: Invalid value: names are needed; spec.names: give a name')).toEqual([
    'names are needed',
    'names: give a name',
  ]);
  expect(namedBy('spec.volume.size: Required value')).toEqual([]);
});

test('each property is unset once, also a required one', () => {
  const unset = specMutations(Sized).filter(({ description }) => description.startsWith('no '));
  expect(unset.map(({ description }) => description)).toEqual(['no volume', 'no volume.size', 'no names']);
  const spec = { volume: { size: 1 }, names: ['a'] };
  expect(unset.map((mutation) => mutation.apply(spec))).toEqual([
    { names: ['a'] },
    { volume: {}, names: ['a'] },
    { volume: { size: 1 } },
  ]);
});
