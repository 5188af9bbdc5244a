import type { Kind } from '@echoperator/runtime';
import { isObject } from '@echoperator/runtime/internal';
import { RefusedError } from './strategy.ts';

/** What is wrong with one field: `field.Error` of k8s.io/apimachinery. */
export interface FieldError {
  readonly reason: keyof typeof titles;
  /** `spec.env[0].name` */
  readonly field: string;
  readonly message: string;
}

const titles = {
  FieldValueInvalid: 'Invalid value',
  FieldValueTypeInvalid: 'Invalid value',
  FieldValueRequired: 'Required value',
  FieldValueNotSupported: 'Unsupported value',
  FieldValueDuplicate: 'Duplicate value',
  FieldValueForbidden: 'Forbidden',
  FieldValueNotFound: 'Not found',
  FieldValueTooLong: 'Too long',
  FieldValueTooMany: 'Too many',
} as const;

/** The error of a field without its value. */
export const fieldError = (reason: FieldError['reason'], field: string, detail?: string): FieldError => ({
  reason,
  field,
  message: detail ? `${titles[reason]}: ${detail}` : titles[reason],
});

/** The error of a field with the value, which the message quotes as Go prints it. */
export const fieldValueError = (
  reason: FieldError['reason'],
  field: string,
  value: unknown,
  detail?: string,
): FieldError => fieldError(reason, field, detail ? `${quoteValue(value)}: ${detail}` : quoteValue(value));

/** The refusal of an invalid object: `NewInvalid` of k8s.io/apimachinery/pkg/api/errors. */
export function invalid({ group, kind }: Kind, name: string, causes: readonly FieldError[]): RefusedError {
  const all = [...new Set(causes.map(({ field, message }) => `${field}: ${message}`))];
  const list = all.length === 1 ? all[0] : `[${all.join(', ')}]`;
  const message = `${group === '' ? kind : `${kind}.${group}`} ${quote(name)} is invalid: ${list}`;
  const details = { name, ...(group !== '' && { group }), kind, causes };
  return new RefusedError({ reason: 'Invalid', code: 422, message, details });
}

function quoteValue(value: unknown): string {
  if (typeof value === 'string') return quote(value);
  return typeof value === 'number' ? printNumber(value) : toGoJson(value);
}

/** `strconv.Quote` of Go. */
export const quote = (text: string): string =>
  `"${text.replaceAll(/["\\]|[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, (character) => escapes[character] ?? escapeCode(character))}"`;

const escapes: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '\x07': '\\a',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
};

function escapeCode(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const hex = (length: number): string => code.toString(16).padStart(length, '0');
  if (code < 0x20 || code === 0x7f) return `\\x${hex(2)}`;
  return code < 0x1_0000 ? `\\u${hex(4)}` : `\\U${hex(8)}`;
}

/** `%v` of Go, for an int64 or a float64. */
export function printNumber(value: number): string {
  const size = Math.abs(value);
  if (size === 0 || (size >= 1e-4 && size < 1e21)) return String(value);
  return value.toExponential().replace(/e([+-])(\d)$/, 'e$10$2');
}

/** `json.Marshal` of Go: sorted keys, and escapes for HTML. Equal values have equal texts. */
export function toGoJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(toGoJson).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value).replaceAll(/[<>&\u2028\u2029]/g, escapeUnit);
  return `{${sortedEntries(value)
    .map(([key, each]) => `${toGoJson(key)}:${toGoJson(each)}`)
    .join(',')}}`;
}

const escapeUnit = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;

const sortedEntries = (object: object): readonly (readonly [string, unknown])[] =>
  Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1));
