import { defineKind } from '@echoperator/runtime';
import { describe, expect, test } from '@jest/globals';
import * as Type from 'typebox';
import { fieldsTable } from '../../../packages/cli/src/generate/fields-table.ts';
import { replacePart } from '../../../packages/cli/src/generate/generated-part.ts';
import { kindParts, pageFileName } from '../../../packages/cli/src/generate/kind-page.ts';
import { reasonRows, reasonsTable } from '../../../packages/cli/src/generate/reasons-table.ts';

/** The table's row for a field `x` of a schema. */
const rowOf = (schema: object, isRequired = false): string =>
  fieldsTable({ properties: { x: schema }, ...(isRequired && { required: ['x'] }) }).split('\n')[2] ?? '';

const takes = (schema: object): string =>
  /^\| `x` \| (.*); optional \| {2}\|$/.exec(rowOf(schema))?.[1] ?? rowOf(schema);

describe('a field takes', () => {
  test.each([
    [{ type: 'string' }, 'a string'],
    [{ type: 'string', minLength: 1, maxLength: 4096 }, 'a string of 1 to 4,096 characters'],
    [{ type: 'string', maxLength: 1 }, 'a string of up to 1 character'],
    [{ type: 'string', minLength: 3 }, 'a string of at least 3 characters'],
    [{ type: 'string', minLength: 2, maxLength: 2 }, 'a string of 2 characters'],
    [{ type: 'string', pattern: '^(a|`)$' }, String.raw`a string that matches ${'``'} ^(a\|${'`'})$ ${'``'}`],
    [{ type: 'string', format: 'date-time', maxLength: 35 }, 'a time of RFC 3339'],
    [{ type: 'string', format: 'ipv4' }, 'a string of the format `ipv4`'],
    [{ type: 'string', enum: ['a'] }, '`a`'],
    [{ type: 'string', enum: ['a', 'b', 'c'] }, '`a`, `b` or `c`'],
    [{ type: 'integer', format: 'int32', minimum: 0, maximum: 5000 }, 'a whole number from 0 to 5,000'],
    [{ type: 'integer', maximum: 5 }, 'a whole number up to 5'],
    [{ type: 'number', minimum: 0, exclusiveMinimum: true, multipleOf: 0.5 }, 'a number above 0, a multiple of 0.5'],
    [{ type: 'number', maximum: 1, exclusiveMaximum: true }, 'a number below 1'],
    [{ type: 'boolean', nullable: true }, 'true or false or null'],
    [{ 'x-kubernetes-int-or-string': true, maxLength: 9 }, 'a whole number or a string of up to 9 characters'],
    [{ type: 'array', maxItems: 2, items: { type: 'boolean' } }, 'a list of up to 2 items, each true or false'],
    [
      { type: 'array', items: { type: 'string' }, 'x-kubernetes-list-type': 'set' },
      'a list, each a string, no two equal',
    ],
    [
      { type: 'object', minProperties: 1, additionalProperties: { type: 'string' } },
      'a map of at least 1 entry, each a string',
    ],
    [{ type: 'object', 'x-kubernetes-preserve-unknown-fields': true }, 'an object with any fields'],
    [{ type: 'object' }, 'an object'],
    [{}, 'any value'],
  ])('%j: %s', (schema, words) => {
    expect(takes(schema)).toBe(words);
  });

  test('a required value, or has a default', () => {
    expect(rowOf({ type: 'boolean' }, true)).toBe('| `x` | true or false; required |  |');
    expect(rowOf({ type: 'string', default: 'a' })).toBe('| `x` | a string; default `a` |  |');
    expect(rowOf({ type: 'array', items: { type: 'integer' }, default: [1] })).toContain('; default `[1]` |');
  });
});

test('a table has the fields of objects, items and maps, each with its path', () => {
  const leaf = { type: 'object', properties: { z: { type: 'boolean' } } };
  const table = fieldsTable({
    properties: {
      o: leaf,
      l: { type: 'array', items: leaf, 'x-kubernetes-list-map-keys': ['z'] },
      m: { type: 'object', additionalProperties: leaf },
    },
  });
  expect([...table.matchAll(/^\| `(.*?)`/gm)].map(([, path]) => path)).toEqual([
    'o',
    'o.z',
    'l',
    'l[].z',
    'm',
    'm.*.z',
  ]);
  expect(table).toContain('each an object, unique by `z`;');
});

test('the meaning is the description and the message of each rule, or the rule, in one line without HTML', () => {
  expect(
    rowOf({
      type: 'string',
      description: 'For <b>\nand `<c>`, a|b.',
      'x-kubernetes-validations': [{ rule: 'self != "a"', message: 'a is taken' }, { rule: 'self != "b"' }],
    }),
  ).toBe(
    String.raw`| ${'`x`'} | a string; optional | For &lt;b> and ${'`<c>`'}, a\|b. Rule: a is taken. Rule: ${'`self != "b"`'}. |`,
  );
});

describe('the parts of a page', () => {
  const Gadget = defineKind({
    group: 'example.com',
    version: 'v1',
    kind: 'Gadget',
    plural: 'gadgets',
    shortNames: ['g', 'gd'],
    scope: 'Cluster',
    description: 'Gadget does something.',
    spec: Type.Object({ size: Type.With(Type.Integer(), { default: 1 }) }),
    status: Type.Object({ seen: Type.Integer({ description: 'How often.' }) }),
    printerColumns: [
      { name: 'Size', type: 'integer', jsonPath: '.spec.size', description: 'The size.' },
      { name: 'Seen', type: 'integer', jsonPath: '.status.seen', priority: 1 },
    ],
    validations: [{ rule: 'self.metadata.name.size() < 9', message: 'metadata.name: too long' }],
    scale: { specReplicasPath: '.spec.size', statusReplicasPath: '.status.seen' },
  });
  const permissions = [{ apiGroups: ['', 'apps'], resources: ['pods', 'pods/status'], verbs: ['get', 'list'] }];
  const parts = kindParts({ kind: Gadget, reasons: [], permissions });

  test('have the description, the names and the rules of the whole object', () => {
    expect(parts.get('description')).toBe('Gadget does something.\n');
    expect(parts.get('names')).toContain(
      '| API version | `example.com/v1` |\n| resource | `gadgets.example.com` |\n| short names | `g`, `gd` |\n' +
        '| scope | the cluster |\n| subresources | `status`, `scale` |\n',
    );
    expect(parts.get('spec')).toContain('| `size` | a whole number; default `1` |');
    expect(parts.get('spec')).toContain('\n\nRules of the whole object:\n\n- metadata.name: too long.\n');
  });

  test('have each field of the status, of the conditions only the list', () => {
    const fields = [...(parts.get('status') ?? '').matchAll(/^\| `(.*?)`/gm)].map(([, path]) => path);
    expect(fields).toEqual(['seen', 'observedGeneration', 'conditions']);
    expect(parts.get('status')).toContain('| `seen` | a whole number | How often. |');
  });

  test('have the columns and the permissions', () => {
    expect(parts.get('columns')).toContain(
      '| Size | `.spec.size` | The size. |\n| Seen | `.status.seen` | Only with `--output wide`. |\n',
    );
    const resources = [...(parts.get('permissions') ?? '').matchAll(/^\| `(.*?)` \| get, list \|/gm)];
    expect(resources.map(([, resource]) => resource)).toEqual(['pods', 'pods/status', 'pods.apps', 'pods.apps/status']);
  });

  test('are absent if they would be empty', () => {
    expect(parts.has('reasons')).toBe(false);
  });
});

test('a table of reasons shows conditions only if a row names some', () => {
  const row = { reason: 'Done', status: 'True', event: 'Normal', meaning: 'It is done.' };
  expect(reasonsTable([row])).toContain('| `Done` | True | Normal | It is done. |');
  expect(reasonsTable([row, { ...row, conditions: ['A', 'B'] }])).toContain(
    '| `Done` | Ready | True | Normal | It is done. |\n| `Done` | A, B | True | Normal | It is done. |\n',
  );
  expect(
    reasonRows({ Done: { ready: 'True', event: 'Warning', recordsMessageChanges: true, meaning: 'It is done.' } }),
  ).toEqual([{ ...row, event: 'Warning, also for a new message' }]);
});

test('a part is replaced, is empty, and is full again', () => {
  const page = (content: string) => `a\n<!-- The x: generated by y. -->\n\n${content}\n<!-- The end of the x. -->\nb\n`;
  const empty = replacePart('p.md', page('old\n'), 'x', '');
  expect(empty).toBe(page(''));
  expect(replacePart('p.md', empty, 'x', 'new\n')).toBe(page('new\n'));
  const withoutEmptyLine = page('').replace('\n\n\n', '\n\n');
  expect(replacePart('p.md', withoutEmptyLine, 'x', 'new\n')).toBe(page('new\n'));
});

test.each([
  ['ScheduledEcho', 'scheduled-echo.md'],
  ['HTTPRoute', 'http-route.md'],
  ['Echo', 'echo.md'],
  ['Ipv4Pool', 'ipv4-pool.md'],
])('the page of %s is %s', (kind, file) => {
  expect(pageFileName({ kind })).toBe(file);
});
