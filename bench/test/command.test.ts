import { expect, test } from '@jest/globals';
import { commandOf, isOfAll } from '../command.ts';
import { operatorNames } from '../operators.ts';

test('no arguments measure all operators, which may be published', () => {
  const command = commandOf([]);
  expect(command).toEqual({ of: 'operators', names: operatorNames });
  expect(isOfAll(command)).toBe(true);
});

test('named operators are measured with ours, in the order of the tables', () => {
  const command = commandOf(['unrecorded', 'kube-rs']);
  expect(command).toEqual({ of: 'operators', names: ['echoperator', 'kube-rs', 'unrecorded'] });
  expect(isOfAll(command)).toBe(false);
});

test('"outside" and two bundles are commands', () => {
  expect(commandOf(['outside'])).toEqual({ of: 'outside' });
  expect(commandOf(['bundles', 'main', '.'])).toEqual({ of: 'bundles', before: 'main', after: '.' });
  expect(isOfAll(commandOf(['bundles', 'main', '.']))).toBe(false);
});

test.each([['before'], ['outside', 'kube-rs'], ['bundles', 'main'], ['bundles', 'a', 'b', 'c'], ['java']])(
  '%p %p is rejected',
  (...args) => {
    expect(() => commandOf(args)).toThrow(`got "${args.join(' ')}", takes operators (echoperator, `);
  },
);
