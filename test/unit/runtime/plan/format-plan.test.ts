import { countChanges, formatPlan, type Plan, type PlannedObject } from '@echoperator/runtime/plan';
import { expect, test } from '@jest/globals';

const owner = (name: string, rest: Partial<PlannedObject>): PlannedObject => ({
  controller: 'shop',
  kind: 'Shop',
  namespace: 'one',
  name,
  writes: [],
  ...rest,
});

const write = (action: PlannedObject['writes'][number]['action'], kind: string, name: string, rest: object = {}) => ({
  action,
  verb: 'apply',
  apiVersion: 'v1',
  kind,
  namespace: 'one',
  name,
  fields: [],
  ...rest,
});

const image = { fields: [{ path: 'spec.image', before: 'a', after: 'b\n\u001b[31m' }] };

const plan: Plan = {
  reconciled: 9,
  seconds: 1.25,
  objects: [
    ...[1, 2, 3, 4, 5, 6, 7].map((n) => owner(`s${n}`, { writes: [write('change', 'Deployment', `d${n}`, image)] })),
    owner('s8', { writes: [write('replace', 'Job', 'j8')], waitsFor: 'Replacing: Job j8 is being deleted' }),
    owner('s9', { externalCall: 'INSERT', writes: [write('status', 'Shop', 's9'), write('none', 'Job', 'j9')] }),
    owner('s10', { incomplete: 'a dry run cannot follow: it writes twice' }),
  ],
};

test('a plan begins with deletions, groups equal changes, and shows what a value would do to a terminal', () => {
  expect(formatPlan(plan)).toBe(`Deletions and replacements (1)
  Job in one
    replace j8 (Shop s8)
      then Shop waits for Replacing: Job j8 is being deleted

Changes (7)
  Deployment in one
    change d1 (Shop s1), d2 (Shop s2), d3 (Shop s3), d4 (Shop s4), d5 (Shop s5) and 2 more
      spec.image: "a" → "b\\n\\u001b[31m"

Status: the same reason (1)
  Shop in one
    status s9

External calls, which end the plan of their objects (1)
  Shop: INSERT
    one/s9

Plans that end early (1)
  Shop: a dry run cannot follow: it writes twice
    one/s10

9 objects planned in 1.3 s: 1 replace, 7 change, 1 status.
`);
});

test('counts the changes of the wanted types: neither external calls, nor statuses with the same reason', () => {
  expect(countChanges(plan)).toBe(9);
  expect(countChanges(plan, ['delete', 'replace'])).toBe(1);
  expect(countChanges(plan, ['status'])).toBe(1);
  expect(countChanges(plan, [])).toBe(0);
  expect(countChanges({ reconciled: 1, seconds: 1, objects: [owner('a', { externalCall: 'x' })] })).toBe(0);
});

test('no text of an object reaches the terminal raw', () => {
  const bad = '\u001b[2Jx\n\u009b31m\u202e';
  const text = formatPlan({
    reconciled: 1,
    seconds: 1,
    objects: [
      owner(bad, {
        namespace: bad,
        kind: bad,
        waitsFor: bad,
        writes: [
          write('change', bad, bad, {
            namespace: bad,
            note: bad,
            fields: [{ path: bad, before: bad, after: { [bad]: bad } }],
          }),
        ],
      }),
      owner(bad, { namespace: bad, externalCall: bad }),
      owner(bad, { namespace: bad, incomplete: bad }),
    ],
  });
  expect(text.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Bidi_Control}]/u);
  expect(text.split('\n').filter((line) => line.includes('31m') && !line.startsWith('  '))).toEqual([]);
});

test('long values begin shortly before their first difference', () => {
  const [before, after] = ['x'.repeat(500), `${'x'.repeat(400)}y${'x'.repeat(99)}`];
  const fields = [
    { path: 'data.text', before, after },
    { path: 'spec.list', after: Array.from({ length: 100 }, (_, index) => index) },
  ];
  const text = formatPlan({
    reconciled: 1,
    seconds: 1,
    objects: [owner('a', { writes: [write('change', 'ConfigMap', 'a', { fields })] })],
  });
  expect(text).toContain(`data.text: "…${'x'.repeat(80)}…" → "…${'x'.repeat(20)}y${'x'.repeat(59)}…"`);
  expect(text).toContain('spec.list: (none) → [0,1,2,3,');
});
