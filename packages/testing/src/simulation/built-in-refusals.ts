import { isObject } from '@echoperator/runtime/internal';
import { type FieldError, fieldError, fieldValueError, quote } from './field-error.ts';

/** The problems that the API server finds in an object. */
export type Causes = readonly FieldError[];

export const dnsLabel: RegExp = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
export const dnsSubdomain: RegExp = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/**
 * Whether two JSON values are equal. The order of an object's members does not count. Unlike `isDeepStrictEqual`, it
 * ignores the realm of the objects, because test runners have several realms.
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

export const required = (field: string, detail?: string): FieldError => fieldError('FieldValueRequired', field, detail);

export const invalid = (field: string, value: unknown, detail: string): FieldError =>
  fieldValueError('FieldValueInvalid', field, value ?? null, detail);

export const forbidden = (field: string, detail: string): FieldError =>
  fieldError('FieldValueForbidden', field, detail);

export const unsupported = (field: string, value: unknown, values: readonly string[]): FieldError =>
  fieldValueError('FieldValueNotSupported', field, value ?? null, `supported values: ${values.map(quote).join(', ')}`);

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
