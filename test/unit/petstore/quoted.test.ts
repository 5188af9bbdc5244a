import { Code } from '@connectrpc/connect';
import { expect, test } from '@jest/globals';
import { asConnectError } from '../../../src/petstore/connect-error.ts';
import { UnknownPetError } from '../../../src/petstore/errors.ts';
import { quoted } from '../../../src/petstore/quoted.ts';
import { cutText } from '../../../src/runtime/client/index.ts';

test('a short text stays as it is', () => {
  expect(cutText('no pet\nhas the id é')).toBe('no pet\nhas the id é');
});

test('a long text is cut, and its length is told', () => {
  const cut = cutText('x'.repeat(1_000_000));
  expect(cut).toBe(`${'x'.repeat(4096)} … (1000000 characters)`);
  expect(quoted('"'.repeat(1_000_000)).length).toBeLessThan(9000);
});

test.each(['\ud83d', `${'x'.repeat(4095)}\u{1f431}`])('gRPC can encode the cut text', (text) => {
  const { rawMessage, code } = asConnectError(new UnknownPetError(cutText(text)));
  expect(code).toBe(Code.NotFound);
  expect(() => encodeURIComponent(rawMessage)).not.toThrow();
});
