import { expect, test } from '@jest/globals';
import { commandOf, usage } from '../command.ts';
import { operatorNames } from '../operators.ts';
import { partNames, parts } from '../parts.ts';

test('no arguments measure every part with all operators', () => {
  expect(commandOf([])).toEqual({ of: 'parts', parts: partNames, names: operatorNames });
});

test('named operators are measured with ours, in the order of the tables', () => {
  const names = ['echoperator', 'kube-rs', 'unrecorded'];
  expect(commandOf(['unrecorded', 'kube-rs'])).toEqual({ of: 'parts', parts: partNames, names });
});

test('parts are named alone or with operators, and two bundles are a command', () => {
  expect(commandOf(['external', 'cache'])).toEqual({ of: 'parts', parts: ['cache', 'external'], names: operatorNames });
  expect(commandOf(['burst', 'kube-rs'])).toEqual({ of: 'parts', parts: ['burst'], names: ['echoperator', 'kube-rs'] });
  expect(commandOf(['bundles', 'main', '.'])).toEqual({ of: 'bundles', before: 'main', after: '.' });
});

test('the help has each part with its minutes, at most 15', () => {
  expect(commandOf(['cache', '--help'])).toEqual({ of: 'help' });
  for (const name of partNames) {
    expect(parts[name].minutes).toBeLessThanOrEqual(15);
    expect(usage).toMatch(new RegExp(`${name} +about +${parts[name].minutes} minutes`));
  }
});

test.each([['before'], ['bundles', 'main'], ['bundles', 'a', 'b', 'c'], ['java']])('%p %p is rejected', (...args) => {
  expect(() => commandOf(args)).toThrow(`got "${args.join(' ')}", takes parts (burst, `);
});
