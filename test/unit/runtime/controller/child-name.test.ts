import { childName, dotlessChildName } from '@echoperator/runtime/controller';
import { describe, expect, test } from '@jest/globals';
import fc from '../../../../testkit/seeded-fast-check.ts';

const dnsName = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

describe('the name of a child', () => {
  test.each(['a', 'a.b-c', 'x'.repeat(63)])('is the name of the owner if it fits: %s', (name) => {
    expect(childName(name, 63)).toBe(name);
  });

  test('is otherwise a prefix and a hash, the same each time', () => {
    const name = childName('x'.repeat(64), 63);
    expect(name).toMatch(/^x{52}-[0-9a-f]{10}$/);
    expect(name).toHaveLength(63);
    expect(childName('x'.repeat(64), 63)).toBe(name);
  });

  test('differs for two long names with a common prefix', () => {
    expect(childName(`${'x'.repeat(100)}a`, 63)).not.toBe(childName(`${'x'.repeat(100)}b`, 63));
  });

  test.each(['-', '.', '--'])('does not end its prefix with "%s"', (cut) => {
    const name = `${'x'.repeat(52 - cut.length)}${cut}${'y'.repeat(40)}`;
    const child = childName(name, 63);
    expect(child).toMatch(/^x+-[0-9a-f]{10}$/);
    expect(child).toMatch(dnsName);
  });
});

describe('the name of a child without dots', () => {
  test('is the name of an owner without dots', () => {
    for (const name of ['a-b', 'x'.repeat(64)]) expect(dotlessChildName(name, 63)).toBe(childName(name, 63));
  });

  test('has a hash for an owner with a dot, because another owner may have a hyphen there', () => {
    expect(dotlessChildName('a.b-c', 63)).toMatch(/^a-b-c-[0-9a-f]{10}$/);
    expect(dotlessChildName('a.b-c', 63)).not.toBe(dotlessChildName('a-b.c', 63));
    expect(dotlessChildName(`${'a.'.repeat(100)}b`, 52)).toMatch(/^[-a]{40,41}-[0-9a-f]{10}$/);
  });
});

test('for any owner the name fits and is a DNS name, and two owners have different names', () => {
  const character = fc.constantFrom('a', 'b', '0', '9');
  const label = fc
    .tuple(character, fc.string({ unit: fc.constantFrom('a', '0', '-'), maxLength: 60 }), character)
    .map((parts) => parts.join(''));
  const name = fc
    .array(label, { minLength: 1, maxLength: 6 })
    .map((labels) => labels.join('.').slice(0, 253))
    .filter((candidate) => dnsName.test(candidate));
  fc.assert(
    fc.property(name, name, fc.constantFrom(52, 63), (one, other, maxLength) => {
      const child = childName(one, maxLength);
      expect(child.length).toBeLessThanOrEqual(maxLength);
      expect(child).toMatch(dnsName);
      expect(child === childName(other, maxLength)).toBe(one === other);
    }),
  );
});
