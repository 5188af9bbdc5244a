import { existsSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { kinds } from '../../src/operator.ts';
import { simulatedScenario } from '../integration/environment/simulated-scenarios.ts';
import { seededBugs } from '../seeded-bugs/index.ts';
import { textWith } from '../seeded-bugs/seeded-bug.ts';

test('there are seeded bugs of the runtime, its cache and each kind, with distinct names', () => {
  const subjects = new Set(seededBugs.map(({ name }) => name.split(':')[0]));
  expect([...subjects].sort()).toEqual([...kinds.map(({ kind }) => kind), 'Cache', 'Runtime'].sort());
  expect(new Set(seededBugs.map(({ name }) => name)).size).toBe(seededBugs.length);
  expect(seededBugs.length).toBeGreaterThanOrEqual(30);
});

test('each bug has scenarios that a simulation knows, or unit tests, or says why none shows it', () => {
  for (const { name, plans, notSimulated } of seededBugs) {
    expect([name, (plans.explore ?? plans.tests) === undefined]).toEqual([name, notSimulated !== undefined]);
    for (const file of plans.tests ?? []) expect(existsSync(join(import.meta.dirname, `${file}.ts`))).toBe(true);
    for (const scenario of plans.explore ?? []) expect(simulatedScenario(scenario)).toBeDefined();
  }
});

/**
 * If this fails, the code has changed: change `find` and `replace` in test/seeded-bugs or test/plans so that the bug is
 * the same.
 */
test.each(seededBugs)('$name: applies to the source once, and is valid TypeScript', async (bug) => {
  expect(stripTypeScriptTypes(await textWith(bug))).not.toBe('');
});
