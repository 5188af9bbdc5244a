import { isObject } from '../../apply/json.ts';
import type { StatusCause } from '../../client/api-error.ts';
import type { Kind } from '../../kind/index.ts';
import { RefusedError } from './strategy.ts';

/** The problems that the API server finds in an object. */
export type Causes = readonly StatusCause[];

export const dnsLabel = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
export const dnsSubdomain = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/**
 * Whether two JSON values are the same. The order of an object's members does not count. Unlike `isDeepStrictEqual`, it ignores which
 * realm made the objects: test runners have several.
 */
export function sameValue(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, index) => sameValue(item, b[index]));
  }
  if (!isObject(a) || !isObject(b)) return false;
  const names = Object.keys(a);
  return (
    names.length === Object.keys(b).length &&
    names.every((name) => Object.hasOwn(b, name) && sameValue(a[name], b[name]))
  );
}

export const required = (field: string, detail = ''): StatusCause => ({
  reason: 'FieldValueRequired',
  field,
  message: detail === '' ? 'Required value' : `Required value: ${detail}`,
});

export const invalid = (field: string, value: unknown, detail: string): StatusCause => ({
  reason: 'FieldValueInvalid',
  field,
  message: `Invalid value: ${JSON.stringify(value) ?? 'null'}: ${detail}`,
});

export const forbidden = (field: string, detail: string): StatusCause => ({
  reason: 'FieldValueForbidden',
  field,
  message: `Forbidden: ${detail}`,
});

export const unsupported = (field: string, value: unknown, values: readonly string[]): StatusCause => ({
  reason: 'FieldValueNotSupported',
  field,
  message: `Unsupported value: ${JSON.stringify(value)}: supported values: ${values.map((one) => JSON.stringify(one)).join(', ')}`,
});

/** A cause for each of these fields that has changed. */
export const immutable = (
  value: Readonly<Record<string, unknown>>,
  old: Readonly<Record<string, unknown>>,
  fields: readonly string[],
  path = 'spec.',
): Causes =>
  fields
    .filter((field) => !sameValue(value[field], old[field]))
    .map((field) => invalid(`${path}${field}`, value[field], 'field is immutable'));

/** @throws RefusedError with code 422, if there are causes */
export function refuseIfInvalid(kind: Kind, name: string, causes: Causes): void {
  if (causes.length === 0) return;
  const texts = causes.map(({ field, message }) => `${field}: ${message}`);
  const text = texts.length === 1 ? texts[0] : `[${texts.join(', ')}]`;
  const type = kind.group === '' ? kind.kind : `${kind.kind}.${kind.group}`;
  throw new RefusedError({
    code: 422,
    reason: 'Invalid',
    message: `${type} ${JSON.stringify(name)} is invalid: ${text}`,
    details: { name, causes },
  });
}
