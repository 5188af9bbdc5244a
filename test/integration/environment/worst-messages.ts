import { type DescField, type DescMessage, ScalarType } from '@bufbuild/protobuf';

/** A message in protobuf's wire format, with what it is made of. */
export interface WorstMessage {
  readonly what: string;
  readonly bytes: Buffer;
}

const varint = (value: number): Buffer =>
  value < 128 ? Buffer.of(value) : Buffer.concat([Buffer.of((value % 128) | 128), varint(Math.floor(value / 128))]);

/** A field of wire type 2. */
const delimited = (number: number, content: Buffer): Buffer =>
  Buffer.concat([varint(number * 8 + 2), varint(content.length), content]);

const filled = (size: number, content: Buffer): Buffer => Buffer.alloc(size - (size % content.length), content);

/** Larger than the tag and the length of a field. */
const headBytes = 8;

/** Not a field of any message of the pet store. */
const unknownField = 15;

const texts = (length: number): Readonly<Record<string, string>> => ({
  blanks: ' '.repeat(length),
  'blanks between letters': `a${' '.repeat(length - 2)}b`,
  'other white space': '\u3000'.repeat(length / 3),
  words: 'a '.repeat(length / 2),
  quotes: '"'.repeat(length),
  'control characters': '\u0001'.repeat(length),
  dots: '.'.repeat(length),
  'an emoji': '\u{1f431}'.repeat(length / 4),
});

/**
 * Messages of about `size` bytes, each with the worst of one field, and of what is no field. They come from the schema.
 */
export function* worstMessages(message: DescMessage, size: number): Generator<WorstMessage> {
  yield { what: 'unknown fields', bytes: filled(size, Buffer.of(unknownField * 8, 1)) };
  yield { what: 'unknown empty fields', bytes: filled(size, Buffer.of(unknownField * 8 + 2, 0)) };
  yield { what: 'unknown groups', bytes: filled(size, Buffer.of(unknownField * 8 + 3, unknownField * 8 + 4)) };
  const half = Math.floor(size / 2);
  const nested = [Buffer.alloc(half, unknownField * 8 + 3), Buffer.alloc(half, unknownField * 8 + 4)];
  yield { what: 'nested unknown groups', bytes: Buffer.concat(nested) };
  yield { what: 'bytes that are no message', bytes: Buffer.alloc(size, 0xff) };
  for (const field of message.fields) {
    for (const { what, bytes } of worstValues(field, size)) yield { what: `${field.name}: ${what}`, bytes };
  }
}

function* worstValues(field: DescField, size: number): Generator<WorstMessage> {
  const { number } = field;
  const inner = field.fieldKind === 'list' ? field.listKind : field.fieldKind;
  const isText = 'scalar' in field && field.scalar === ScalarType.STRING;
  if (isText) {
    for (const [what, text] of Object.entries(texts(size - headBytes))) {
      yield { what, bytes: delimited(number, Buffer.from(text)) };
    }
    yield { what: 'invalid UTF-8', bytes: delimited(number, Buffer.alloc(size - headBytes, 0xff)) };
  }
  if (isText || inner === 'message') yield { what: 'empty ones', bytes: filled(size, Buffer.of(number * 8 + 2, 0)) };
  if (isText) yield { what: 'short ones', bytes: filled(size, delimited(number, Buffer.from('a'))) };
  if (inner === 'message' && field.message !== undefined) {
    for (const { what, bytes } of worstMessages(field.message, size - headBytes)) {
      yield { what, bytes: delimited(number, bytes) };
    }
  }
  if (inner === 'enum') {
    yield { what: 'packed ones', bytes: delimited(number, Buffer.alloc(size - headBytes, 1)) };
    yield { what: 'single ones', bytes: filled(size, Buffer.of(number * 8, 1)) };
  }
}
