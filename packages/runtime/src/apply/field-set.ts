import { fieldSchema, itemKey, resolve } from './difference.ts';
import { isObject } from './json.ts';
import { type Schema, schemaless } from './schema.ts';

/**
 * Hashes the set of fields in a configuration, regardless of their values and order, to 16 hexadecimal digits. The hash
 * changes when the configuration drops a field, which a comparison with the stored object cannot detect.
 *
 * The sum of the hashes of all field paths (FNV-1a, two lanes) avoids sorting and joining the paths.
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
  const resolved = resolve(schema);
  if (Array.isArray(value)) {
    const { merge, items } = resolved.type === 'list' ? resolved : { merge: 'atomic' as const, items: schemaless };
    value.forEach((item: unknown, index) => {
      add(item, items, extend(path, merge === 'atomic' ? String(index) : itemKey(item, merge)), sums);
    });
  } else if (isObject(value)) {
    for (const name in value) add(value[name], schemaOfMember(resolved, name), extend(path, name), sums);
  }
  sums.low = (sums.low + mixBits(path.low)) >>> 0;
  sums.high = (sums.high + mixBits(path.high)) >>> 0;
}

function schemaOfMember(schema: Schema, name: string): Schema {
  if (schema.type === 'struct') return fieldSchema(schema, name);
  return schema.type === 'map' ? schema.values : schemaless;
}

/** Extends the hash of a path by a step. The end of each step is hashed too, so that `a.bc` differs from `ab.c`. */
function extend({ low, high }: Lanes, step: string): Lanes {
  let [a, b] = [low, high];
  for (let index = 0; index < step.length; index += 1) {
    const unit = step.charCodeAt(index);
    a = Math.imul(a ^ unit, 0x01000193);
    b = Math.imul(b ^ unit, 0x5bd1e995);
  }
  return { low: Math.imul(a ^ 0x10000, 0x01000193), high: Math.imul(b ^ 0x10000, 0x5bd1e995) };
}

/** Spreads each bit over all bits (MurmurHash3's finalizer), because sums of similar hashes would collide. */
function mixBits(hash: number): number {
  const first = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  const second = Math.imul(first ^ (first >>> 13), 0xc2b2ae35);
  return (second ^ (second >>> 16)) >>> 0;
}

const hex = (number: number): string => number.toString(16).padStart(8, '0');
