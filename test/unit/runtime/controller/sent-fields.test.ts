import type { ClientRequest } from '@echoperator/runtime/client';
import { describe, expect, test } from '@jest/globals';
import { isOnlySent } from '../../../../packages/runtime/src/controller/sent-fields.ts';
import { stored, Widget } from '../../../../testkit/widgets.ts';

const request = (body: object, subresource?: 'status'): ClientRequest => ({
  verb: Array.isArray(body) || subresource !== undefined ? 'patch' : 'apply',
  kind: Widget,
  subresource,
  body,
});

const at = (version: string, fields: object, metadata: object = {}): Widget =>
  ({ ...stored('a', version, metadata), ...fields }) as Widget;

const isOwn = (body: object, before: object, after: object, subresource?: 'status'): boolean => {
  const object = at('2', after);
  return isOnlySent(request(body, subresource), { type: 'modified', object, previous: at('1', before) });
};

describe('a change is nothing but what was sent', () => {
  test.each<[string, object, object, object]>([
    ['a member with the sent value', { spec: { size: 2 } }, { spec: { size: 1 } }, { spec: { size: 2 } }],
    ['beside members that stay', { spec: { size: 2 } }, { spec: { size: 1, a: 1 } }, { spec: { size: 2, a: 1 } }],
    ['a member that a null removes', { spec: { size: null } }, { spec: { size: 1 } }, { spec: {} }],
    ['a list', { spec: { list: [1, 2] } }, { spec: {} }, { spec: { list: [1, 2] } }],
    [
      'an item beside an item of others: an apply merges them',
      { status: { list: [{ type: 'B', at: 2 }, { name: '1' }] } },
      {
        status: {
          list: [
            { type: 'A', at: 1 },
            { type: 'B', at: 1, by: 'x' },
          ],
        },
      },
      { status: { list: [{ type: 'A', at: 1 }, { type: 'B', at: 2, by: 'x' }, { name: '1' }] } },
    ],
    [
      'a list without names',
      { spec: { list: [{ at: 2 }] } },
      { spec: { list: [{ at: 1 }] } },
      { spec: { list: [{ at: 2 }] } },
    ],
    ['what a JSON patch sets', [{ op: 'add', path: '/spec/a~1b', value: 1 }], { spec: {} }, { spec: { 'a/b': 1 } }],
    ['what a JSON patch removes', [{ op: 'remove', path: '/spec/size' }], { spec: { size: 1 } }, { spec: {} }],
    ['nothing', { spec: { size: 1 } }, { spec: { size: 1 } }, { spec: { size: 1 } }],
    [
      'an item with a member that is undefined, and a date: JSON has neither',
      { status: { list: [{ type: 'A', reason: undefined, at: new Date(0) }], at: new Date(0) } },
      { status: {} },
      { status: { list: [{ type: 'A', at: '1970-01-01T00:00:00.000Z' }], at: '1970-01-01T00:00:00.000Z' } },
    ],
    [
      'a kind that lists leave out',
      { spec: { size: 2 } },
      { spec: {} },
      { apiVersion: 'v1', kind: 'W', spec: { size: 2 } },
    ],
  ])('%s', (_, body, before, after) => {
    expect(isOwn(body, before, after)).toBe(true);
  });
});

describe('a change is more than what was sent', () => {
  test.each<[string, object, object, object]>([
    ['another value', { spec: { size: 2 } }, { spec: { size: 1 } }, { spec: { size: 3 } }],
    ['another member', { spec: { size: 2 } }, { spec: { size: 1 } }, { spec: { size: 2, a: 1 } }],
    ['a member that was removed', { spec: { size: 2 } }, { spec: { size: 1, a: 1 } }, { spec: { size: 2 } }],
    ['a member that was not removed as sent', { spec: { size: null } }, { spec: { size: 1 } }, { spec: { size: 2 } }],
    ['a further item', { spec: { list: [1] } }, { spec: { list: [] } }, { spec: { list: [1, 2] } }],
    [
      'an item of a list in which others may have items, and another item with the same value',
      { status: { conditions: [{ type: 'B', status: 'False', at: 2 }] } },
      {
        status: {
          conditions: [
            { type: 'A', status: 'True', at: 1 },
            { type: 'B', status: 'True', at: 1 },
          ],
        },
      },
      {
        status: {
          conditions: [
            { type: 'A', status: 'False', at: 2 },
            { type: 'B', status: 'False', at: 2 },
          ],
        },
      },
    ],
    [
      'an item in the place of one that was removed',
      { metadata: { finalizers: ['b'] } },
      { metadata: { finalizers: ['a', 'c'] } },
      { metadata: { finalizers: ['b', 'c'] } },
    ],
    [
      'an item of others',
      { spec: { list: [{ a: 2 }] } },
      { spec: { list: [{ a: 1 }, 1] } },
      { spec: { list: [{ a: 2 }, 2] } },
    ],
    ...(
      [
        ['another item of others', [{ name: 'a' }, { name: 'c' }, { name: 'b', at: 2 }]],
        ['without an item of others', [{ name: 'b', at: 2 }]],
        ['in another order', [{ name: 'b', at: 2 }, { name: 'a' }]],
        ['twice', [{ name: 'a' }, { name: 'b', at: 2 }, { name: 'b', at: 2 }]],
      ] as const
    ).map(([how, list]): [string, object, object, object] => [
      `an item ${how}`,
      { spec: { list: [{ name: 'b', at: 2 }] } },
      { spec: { list: [{ name: 'a' }, { name: 'b', at: 1 }] } },
      { spec: { list } },
    ]),
    ['an inherited member', { spec: {} }, { spec: {} }, { spec: { constructor: 1 } }],
    [
      'the item that a JSON patch sets',
      [{ op: 'replace', path: '/spec/list/0', value: 2 }],
      { spec: { list: [1] } },
      { spec: { list: [2] } },
    ],
  ])('%s', (_, body, before, after) => {
    expect(isOwn(body, before, after)).toBe(false);
  });

  test('a label that was not sent, beside a label that was', () => {
    const object = at('2', {}, { labels: { a: '1', b: '1' } });
    const delta = { type: 'modified', object, previous: at('1', {}) } as const;
    expect(isOnlySent(request({ metadata: { labels: { a: '1' } } }), delta)).toBe(false);
    expect(isOnlySent(request({ metadata: { labels: { a: '1', b: '1' } } }), delta)).toBe(true);
  });

  test.each([
    ['a status', 'status', 2, false],
    ['a status', 'status', 1, true],
    ['a spec', undefined, 2, true],
    ['a spec', undefined, 3, false],
  ] as const)('%s, by generations', (_, subresource, generation, isOnly) => {
    const object = at('2', { spec: { size: 2 } }, { generation });
    const previous = at('1', { spec: { size: 1 } }, { generation: 1 });
    const body = { spec: { size: 2 } };
    expect(isOnlySent(request(body, subresource), { type: 'modified', object, previous })).toBe(isOnly);
  });

  test('a new generation by a request that has sent no spec: a transform may have dropped it', () => {
    const body = { metadata: { labels: { a: '1' } } };
    const object = at('2', {}, { generation: 2, labels: { a: '1' } });
    const previous = at('1', {}, { generation: 1 });
    expect(isOnlySent(request(body), { type: 'modified', object, previous })).toBe(false);
  });

  test('an update of an object that the store has not shown', () => {
    const object = at('3', { spec: { size: 7 } }, { labels: { a: '1' } });
    const update = (version: string): ClientRequest => {
      const { metadata } = at(version, {}, { labels: { a: '1' } });
      return { verb: 'update', kind: Widget, body: { ...object, metadata } };
    };
    const delta = { type: 'modified', object, previous: at('1', { spec: { size: 1 } }) } as const;
    expect(isOnlySent(update('2'), delta)).toBe(false);
    expect(isOnlySent(update('1'), delta)).toBe(true);
  });

  test('an object that an apply shows, unless it could only create it', () => {
    const added = { type: 'added', object: at('2', {}) } as const;
    const applied = (metadata: object) => isOnlySent(request({ metadata }), added);
    expect([applied({}), applied({ resourceVersion: '7' }), applied({ resourceVersion: '1' })]).toEqual([
      false,
      false,
      true,
    ]);
  });

  test('what a get or a delete shows, and an object that is gone', () => {
    const object = at('2', {});
    const modified = { type: 'modified', object, previous: object } as const;
    expect(isOnlySent({ verb: 'get', kind: Widget }, modified)).toBe(false);
    expect(isOnlySent({ verb: 'delete', kind: Widget }, modified)).toBe(false);
    expect(isOnlySent(request({}), { type: 'deleted', object })).toBe(false);
    expect(isOnlySent({ verb: 'get', kind: Widget }, { type: 'added', object })).toBe(false);
  });
});
