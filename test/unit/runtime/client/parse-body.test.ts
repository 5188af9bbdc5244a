import type { KubeObject } from '@echoperator/runtime';
import { describe, expect, test } from '@jest/globals';
import { pino } from 'pino';
import { maxNesting, parseBody } from '../../../../packages/runtime/src/client/parse-body.ts';
import { isReadable, unreadableMembersOf } from '../../../../packages/runtime/src/kind/unreadable-object.ts';

const nested = (levels: number): string => `${'['.repeat(levels)}${']'.repeat(levels)}`;
const metadata = '"metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"1"';
const withSpec = (levels: number): string => `{"kind":"Widget",${metadata}},"spec":${nested(levels)}}`;

test('a member may be nested as many levels as recursive functions bear', () => {
  const object = parseBody(withSpec(maxNesting)) as KubeObject;
  expect(isReadable(object)).toBe(true);
  expect(object).toEqual(JSON.parse(withSpec(maxNesting)));
});

test('one level more cannot be read, by name', () => {
  const object = parseBody(withSpec(maxNesting + 1)) as KubeObject & { spec: unknown };
  expect(unreadableMembersOf(object)).toEqual(['spec']);
  expect(() => object.spec).toThrow(
    'Widget b/a: .spec is nested more than 500 levels deep: simplify it, or delete the object',
  );
  expect(object.metadata.name).toBe('a');
});

test('a log line of the error names the object and the member, and shows nothing else of the object', () => {
  const object = parseBody(withSpec(9000)) as KubeObject & { spec: unknown };
  let line = '';
  const log = pino({ base: null }, { write: (text) => (line += text) });
  try {
    void object.spec;
  } catch (error) {
    log.error({ err: error }, 'failed');
  }
  const { err } = JSON.parse(line);
  expect(err.message).toBe('Widget b/a: .spec is nested more than 500 levels deep: simplify it, or delete the object');
  expect(Object.keys(err).sort()).toEqual(['message', 'name', 'stack', 'type']);
});

test('a wide object is read whole', () => {
  const items = Array.from({ length: 10 * maxNesting }, () => [[]]);
  const object = parseBody(`{${metadata}},"spec":${JSON.stringify(items)}}`) as KubeObject & { spec: unknown };
  expect(object.spec).toEqual(items);
});

test('brackets in strings do not hide the depth', () => {
  const closers = JSON.stringify(']'.repeat(maxNesting));
  const text = `{${metadata}},"a":${closers},"spec":[${closers},${nested(maxNesting)}]}`;
  expect(unreadableMembersOf(parseBody(text) as KubeObject)).toEqual(['spec']);
});

test('deep managedFields, which mirror the spec, are left out', () => {
  const object = parseBody(`{${metadata},"managedFields":[${nested(9000)}]},"spec":{}}`) as KubeObject;
  expect(object).toEqual({ ...JSON.parse(`{${metadata}}}`), spec: {} });
  expect(isReadable(object)).toBe(true);
});

test('what has no name loses its deep members: a Status', () => {
  const text = `{"kind":"Status","message":"no","details":{"causes":${nested(9000)}}}`;
  expect(parseBody(text)).toEqual({ kind: 'Status', message: 'no' });
  expect(parseBody(`{"type":"ERROR","object":${text}}`)).toEqual({
    type: 'ERROR',
    object: { kind: 'Status', message: 'no' },
  });
});

describe('each object is treated on its own', () => {
  test('in a list', () => {
    const list = parseBody(`{"metadata":{"resourceVersion":"9"},"items":[${withSpec(2)},${withSpec(9000)},7]}`) as {
      items: readonly KubeObject[];
    };
    expect(list.items.slice(0, 2).map(unreadableMembersOf)).toEqual([undefined, ['spec']]);
  });

  test('in an event of a watch', () => {
    const event = parseBody(`{"type":"ADDED","object":${withSpec(9000)}}`) as { object: KubeObject };
    expect(unreadableMembersOf(event.object)).toEqual(['spec']);
  });

  test('also an object with a type and an object of its own', () => {
    const text = `{${metadata}},"type":"a","object":{},"spec":${nested(9000)}}`;
    expect(unreadableMembersOf(parseBody(text) as KubeObject)).toEqual(['spec']);
  });

  test('also an object with items of its own', () => {
    const object = parseBody(`{${metadata}},"items":[${nested(9000)}]}`) as KubeObject;
    expect(unreadableMembersOf(object)).toEqual(['items']);
  });
});
