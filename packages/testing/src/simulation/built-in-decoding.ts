import type { Schema } from '@echoperator/runtime/internal';
import { builtInTypes, isObject, type JsonObject, parseNanos } from '@echoperator/runtime/internal';
import { builtInDefaults } from './built-in-defaults.ts';
import { badRequest, NotSimulatedError, type RefusedError } from './strategy.ts';

/** A decoded struct that is not shared yet. */
export type Draft = Record<string, unknown>;

/**
 * Adds the defaults that depend on a decoded struct's other fields. May change `draft`, but not the values in it.
 *
 * @param sent the struct before the recorded defaults were filled in
 */
export type Complete = (draft: Draft, sent: JsonObject) => void;

interface Field {
  readonly schema: Schema;
  /** The type of a scalar, as `typeof` reports it. */
  readonly type?: 'string' | 'number' | 'boolean';
}

interface Plan {
  readonly fields: ReadonlyMap<string, Field>;
  readonly defaults: readonly (readonly [field: string, value: unknown])[];
}

const plans = new Map<string, Plan>();

const keepsAll: Schema = { type: 'scalar', keepsZero: true };
const dropsZero: Schema = { type: 'scalar', keepsZero: false };

/** @throws NotSimulatedError for a struct whose defaults are not recorded */
function planOf(name: string): Plan {
  const found = plans.get(name);
  if (found !== undefined) return found;
  // A field that is merged as one value has a variant of its type, such as `core.v1.ObjectReference.atomic`.
  const plain = name.split('.').slice(0, 3).join('.');
  const recorded = builtInDefaults[plain];
  if (recorded === undefined) throw new NotSimulatedError(`the defaults of ${name} are not recorded`);
  const schema = builtInTypes[name];
  // A status is stored as sent, apart from unknown fields: see built-in-resources.ts.
  const known = schema?.type === 'struct' && !name.endsWith('Status') ? schema.fields : undefined;
  const fallback = known === undefined ? keepsAll : dropsZero;
  const fieldsOf = (names: string, type?: Field['type']): [string, Field][] =>
    names
      .split(' ')
      .filter((field) => field !== '')
      .map((field) => [field, { schema: known?.[field] ?? fallback, ...(type && { type }) }]);
  const fields = new Map([
    ...fieldsOf(recorded.strings, 'string'),
    ...fieldsOf(recorded.numbers, 'number'),
    ...fieldsOf(recorded.booleans, 'boolean'),
    ...fieldsOf(recorded.others),
  ]);
  if (fields.has('status')) fields.set('status', { schema: { type: 'ref', name: `${plain}Status` } });
  const plan: Plan = { fields, defaults: Object.entries(recorded.defaults) };
  plans.set(name, plan);
  return plan;
}

/**
 * Decodes objects of built-in kinds as the API server does: prunes unknown fields, drops zeros that the server does not
 * store, fills in defaults.
 */
export class BuiltInDecoder {
  readonly #complete: Readonly<Record<string, Complete>>;

  /** @param complete the defaults that are not recorded, by the names of the structs */
  constructor(complete: Readonly<Record<string, Complete>>) {
    this.#complete = complete;
  }

  /**
   * @param name the name of the struct in {@link builtInTypes}
   * @param keep members that are not decoded
   * @throws RefusedError (400) for a value of a wrong type; NotSimulatedError for a struct without recorded defaults
   */
  decode(sent: unknown, name: string, keep: readonly string[] = []): Draft {
    if (!isObject(sent)) throw refuseType(name, sent);
    const { fields, defaults } = planOf(name);
    const draft: Draft = {};
    for (const [member, value] of Object.entries(sent)) {
      const field = fields.get(member);
      if (field === undefined || value === undefined || value === null) continue;
      if (keep.includes(member)) draft[member] = value;
      else {
        const decoded = this.#value(value, field, `${name}.${member}`);
        if (decoded !== undefined) draft[member] = decoded;
      }
    }
    for (const [member, value] of defaults) {
      if (Object.hasOwn(draft, member)) continue;
      const field = fields.get(member);
      draft[member] = isObject(value) && field !== undefined ? this.#value(value, field, member) : value;
    }
    this.#complete[name]?.(draft, sent);
    return draft;
  }

  #value(value: unknown, { schema, type }: Field, path: string): unknown {
    if (type !== undefined && (typeof value !== type || (type === 'number' && !Number.isInteger(value)))) {
      throw refuseType(path, value);
    }
    switch (schema.type) {
      case 'scalar':
        return schema.keepsZero || !isZero(value) ? value : undefined;
      case 'quantity':
        return canonicalQuantity(value, path);
      case 'ref':
        return this.decode(value, schema.name);
      case 'list':
        if (!Array.isArray(value)) throw refuseType(path, value);
        return value.length === 0 && schema.emptyIsAbsent
          ? undefined
          : value.map((item) => this.#value(item ?? zeroOf(schema.items), { schema: schema.items }, path));
      case 'map':
        return this.#map(value, schema.values, path);
      default:
        return value;
    }
  }

  #map(value: unknown, values: Schema, path: string): unknown {
    if (!isObject(value)) throw refuseType(path, value);
    const entries = Object.entries(value).map(([key, given]) => {
      const item = given ?? zeroOf(values);
      // Every map of quantities is a ResourceList.
      if (values.type === 'quantity') return [key, canonicalQuantity(item, path, 'milli')];
      return [key, this.#value(item, { schema: values, ...(values.type === 'scalar' && { type: 'string' }) }, path)];
    });
    return entries.length === 0 ? undefined : Object.fromEntries(entries);
  }
}

/** The value that replaces a null among the items of a list or map. */
const zeroOf = ({ type }: Schema): unknown => (type === 'ref' ? {} : type === 'quantity' ? '0' : '');

const isZero = (value: unknown): boolean => value === '' || value === 0 || value === false;

const refuseType = (path: string, value: unknown): RefusedError =>
  badRequest(`json: cannot unmarshal ${Array.isArray(value) ? 'array' : typeof value} into Go struct field ${path}`);

/** Matches quantities in the form in which the API server writes them. */
const canonical = /^[1-9]\d{0,2}(?:[mkMGTPE]|[KMGTPE]i)?$/;

/**
 * Writes a quantity as the API server does (k8s.io/apimachinery/pkg/api/resource, CanonicalizeBytes).
 *
 * @param precision `milli` rounds up to thousandths, as the server does in a ResourceList
 * @throws RefusedError (400) if it is no quantity
 */
export function canonicalQuantity(value: unknown, path: string, precision: 'nano' | 'milli' = 'nano'): string {
  const text = String(value).trim();
  if (canonical.test(text)) return text;
  const exact = typeof value === 'string' || typeof value === 'number' ? parseNanos(text) : undefined;
  if (exact === undefined) throw badRequest(`${path}: quantities must match the regular expression`);
  const nanos = precision === 'milli' ? roundUp(exact, 1_000_000n) : exact;
  if (nanos === 0n) return '0';
  const unit = 1_000_000_000n;
  const size = nanos < 0n ? -nanos : nanos;
  if (text.endsWith('i') && nanos % unit === 0n && size >= 1024n * unit) {
    const [mantissa, exponent] = stripFactors(nanos / unit, 1024n);
    return `${mantissa}${['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'][exponent]}`;
  }
  const [mantissa, thousands] = stripFactors(nanos, 1000n);
  if (/[eE]\d|[eE][+-]/.test(text)) return thousands === 3 ? String(mantissa) : `${mantissa}e${(thousands - 3) * 3}`;
  return `${mantissa}${['n', 'u', 'm', '', 'k', 'M', 'G', 'T', 'P', 'E'][thousands]}`;
}

const roundUp = (nanos: bigint, step: bigint): bigint => {
  const rest = nanos % step;
  if (rest === 0n) return nanos;
  return rest > 0n ? nanos + step - rest : nanos - step - rest;
};

/** Divides the number by the factor as often as possible, but at most as often as there are suffixes. */
function stripFactors(number: bigint, factor: bigint): readonly [rest: bigint, count: number] {
  const most = factor === 1024n ? 6 : 9;
  let [rest, count] = [number, 0];
  while (count < most && rest % factor === 0n) {
    rest /= factor;
    count += 1;
  }
  return [rest, count];
}
