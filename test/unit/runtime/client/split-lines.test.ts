import { expect, test } from '@jest/globals';
import { splitLines } from '../../../../packages/runtime/src/client/split-lines.ts';
import fc from '../../../../testkit/seeded-fast-check.ts';

async function* chunksOf(...chunks: readonly (string | Buffer)[]): AsyncGenerator<Buffer> {
  for (const chunk of chunks) yield Buffer.from(chunk as string);
}

async function split(...chunks: readonly (string | Buffer)[]): Promise<string[]> {
  const seen: string[] = [];
  for await (const batch of splitLines(chunksOf(...chunks))) seen.push(...batch);
  return seen;
}

test.each<[string, readonly string[], readonly string[]]>([
  ['nothing', [], []],
  ['an empty chunk', [''], []],
  ['one line', ['a\n'], ['a']],
  ['lines in one chunk', ['a\nb\n'], ['a', 'b']],
  ['a line over three chunks', ['a', 'b', 'c\n'], ['abc']],
  ['a line feed at the start of a chunk', ['a', '\nb\n'], ['a', 'b']],
  ['a chunk that is a single line feed', ['a', '\n', 'b', '\n'], ['a', 'b']],
  ['an empty line', ['a\n\nb\n'], ['a', '', 'b']],
  ['an incomplete line at the end', ['a\nb'], ['a']],
  ['only an incomplete line', ['ab'], []],
  ['an escaped line feed in JSON', ['"a\\nb"\n'], ['"a\\nb"']],
])('%s', async (_, chunks, expected) => {
  expect(await split(...chunks)).toEqual(expected);
});

test('a chunk may end inside a character', async () => {
  const bytes = Buffer.from('Hola, 世界! 👋\n');
  for (let at = 0; at <= bytes.length; at += 1) {
    expect(await split(bytes.subarray(0, at), bytes.subarray(at))).toEqual(['Hola, 世界! 👋']);
  }
});

test('the lines do not depend on the chunks', async () => {
  const text = fc.string({ unit: fc.constantFrom('a', '\n', '世', '👋', '\r', ' '), maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(text, fc.array(fc.nat(160), { maxLength: 8 }), async (content, cuts) => {
      const bytes = Buffer.from(content);
      const at = [0, ...cuts.filter((cut) => cut < bytes.length).sort((a, b) => a - b), bytes.length];
      const chunks = at.slice(1).map((end, index) => bytes.subarray(at[index], end));
      expect(await split(...chunks)).toEqual(content.split('\n').slice(0, -1));
    }),
  );
});

test('yields one list per chunk, which may be empty', async () => {
  const seen: (readonly string[])[] = [];
  for await (const batch of splitLines(chunksOf('a\nb\nc', 'd', 'e\n'))) seen.push(batch);
  expect(seen).toEqual([['a', 'b'], [], ['cde']]);
});

test('yields the complete lines, then throws the error of the source', async () => {
  const seen: string[] = [];
  const read = async (): Promise<void> => {
    async function* broken(): AsyncGenerator<Buffer> {
      yield Buffer.from('a\nb');
      throw new Error('cut');
    }
    for await (const batch of splitLines(broken())) seen.push(...batch);
  };
  await expect(read()).rejects.toThrow('cut');
  expect(seen).toEqual(['a']);
});
