import { describe, expect, test } from '@jest/globals';
import {
  InvalidTableNameError,
  parseTableName,
  tableSql,
  tableText,
} from '../../../../src/kinds/postgres-writer/statements.ts';
import fc from '../../../../testkit/seeded-fast-check.ts';

describe('a name of a table', () => {
  test.each([
    ['students', undefined, 'students'],
    ['school.students', 'school', 'students'],
    ['Students', undefined, 'Students'],
    ['students; drop table students--', undefined, 'students; drop table students--'],
    ['my school.my table', 'my school', 'my table'],
    ['"year.2026"', undefined, 'year.2026'],
    ['"a.b"."c.d"', 'a.b', 'c.d'],
    ['school."year.2026"', 'school', 'year.2026'],
    ['say "hi"', undefined, 'say "hi"'],
    ['"say ""hi"""', undefined, 'say "hi"'],
    ['"""', undefined, undefined],
    ['学校.学生', '学校', '学生'],
    ['n'.repeat(63), undefined, 'n'.repeat(63)],
    ['line\nfeed', undefined, 'line\nfeed'],
  ])('%j', (text, schema, name) => {
    if (name === undefined) expect(() => parseTableName(text)).toThrow(InvalidTableNameError);
    else expect(parseTableName(text)).toEqual({ schema, name });
  });

  test.each([
    '',
    '.',
    'a.',
    '.a',
    'a..b',
    'a.b.c',
    '"open',
    '"a"b',
    '""',
    'n'.repeat(64),
    '学'.repeat(22),
    `a.${'n'.repeat(64)}`,
  ])('%j is none', (text) => {
    expect(() => parseTableName(text)).toThrow(InvalidTableNameError);
  });

  test('that is refused is quoted, with why', () => {
    expect(() => parseTableName('a.b.c')).toThrow('"a.b.c" is not the name of a table: it has more than two parts');
    expect(() => parseTableName('n'.repeat(64))).toThrow('63 bytes');
    expect(() => parseTableName('a.'.repeat(500_000))).toThrow(/^.{4000,5000}63 bytes$/s);
  });

  test('is SQL that is a name whatever it holds', () => {
    expect(tableSql({ schema: 'public', name: 'a"; DROP TABLE b; --' })).toBe('"public"."a""; DROP TABLE b; --"');
  });

  const part = fc
    .string({ unit: 'grapheme', minLength: 1, maxLength: 15 })
    .filter((text) => Buffer.byteLength(text) <= 63);

  test('is read as it was written, whatever it holds', () => {
    fc.assert(
      fc.property(fc.option(part, { nil: undefined }), part, (schema, name) => {
        expect(parseTableName(tableText({ schema, name }))).toEqual({ schema, name });
      }),
    );
  });
});
