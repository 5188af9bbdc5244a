import { fieldOf, itemName, resolved } from './difference.ts';
import { isObject } from './json.ts';
import { type Schema, unknown } from './schema.ts';

/**
 * A hash of which fields a configuration has, whatever their values and their order: 16 hexadecimal digits. A field
 * that is no longer wanted changes it, which no comparison with the stored object can tell.
 *
 * Each field's path is hashed (FNV-1a, in two lanes), and the hashes are added up, so that nothing is sorted or joined.
 */
export function fieldSetHash(configuration: unknown, schema: Schema): string {
  const sums = { low: 0, high: 0 };
  add(configuration, schema, { low: 0x811c9dc5, high: 0x9dc5811c }, sums);
  return hex(sums.high) + hex(sums.low);
}

interface Lanes {
  readonly low: number;
  readonly high: number;
}

function add(value: unknown, schema: Schema, path: Lanes, sums: { low: number; high: number }): void {
  if (value === undefined || value === null) return;
  const known = resolved(schema);
  if (Array.isArray(value)) {
    const { merge, items } = known.type === 'list' ? known : { merge: 'atomic' as const, items: unknown };
    value.forEach((item: unknown, index) => {
      add(item, items, extended(path, merge === 'atomic' ? String(index) : itemName(item, merge)), sums);
    });
  } else if (isObject(value)) {
    for (const name in value) add(value[name], partOf(known, name), extended(path, name), sums);
  }
  sums.low = (sums.low + mixed(path.low)) >>> 0;
  sums.high = (sums.high + mixed(path.high)) >>> 0;
}

function partOf(schema: Schema, name: string): Schema {
  if (schema.type === 'struct') return fieldOf(schema, name);
  return schema.type === 'map' ? schema.values : unknown;
}

/** The path with one more step; a step's end is hashed too, so that `a.bc` is not `ab.c`. */
function extended({ low, high }: Lanes, step: string): Lanes {
  let [a, b] = [low, high];
  for (let index = 0; index < step.length; index += 1) {
    const unit = step.charCodeAt(index);
    a = Math.imul(a ^ unit, 0x01000193);
    b = Math.imul(b ^ unit, 0x5bd1e995);
  }
  return { low: Math.imul(a ^ 0x10000, 0x01000193), high: Math.imul(b ^ 0x10000, 0x5bd1e995) };
}

/** Spreads each bit over the others (the finalizer of MurmurHash3), for sums of like hashes would be alike. */
function mixed(hash: number): number {
  const first = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  const second = Math.imul(first ^ (first >>> 13), 0xc2b2ae35);
  return (second ^ (second >>> 16)) >>> 0;
}

const hex = (number: number): string => number.toString(16).padStart(8, '0');
