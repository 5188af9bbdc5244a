import type { Kind, KubeObject } from '@echoperator/runtime';
import type { Transport } from '../../../packages/runtime/src/client/transport.ts';
import { apiVersionOf } from '../../../packages/runtime/src/kind/kind.ts';

/** JSON of the API server's OpenAPI document. */
type Json = Readonly<Record<string, unknown>>;

/** Returns a generator of numbers from 0 to below 1. The same seed gives the same numbers (mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const texts = ['a', 'b-1', '', '1', '500m', '1Gi', 'http', 'TCP', 'UDP', 'Exists', 'In', '10.0.0.0/24', '/x', 'zone'];
const integers = [0, 1, 2, 5, 30, 80, 443, 8080];

/** Changes random fields of an object that the API server's OpenAPI document describes. */
export class RandomEdits {
  readonly #schemas: Json;
  readonly #root: Json;
  readonly #random: () => number;

  private constructor(schemas: Json, root: Json, random: () => number) {
    this.#schemas = schemas;
    this.#root = root;
    this.#random = random;
  }

  /** @throws Error if the API server does not describe the kind */
  static async of(kind: Kind, transport: Transport, random: () => number): Promise<RandomEdits> {
    const { group, version } = kind;
    const path = `/openapi/v3/${group === '' ? 'api' : 'apis'}/${apiVersionOf(kind)}`;
    const document = (await transport.request({ method: 'GET', path })) as { components: { schemas: Json } };
    const { schemas } = document.components;
    const root = Object.values(schemas).find((schema) => {
      const kinds = (schema as Json)['x-kubernetes-group-version-kind'] as readonly Json[] | undefined;
      return kinds?.some((one) => one.group === group && one.version === version && one.kind === kind.kind);
    });
    if (root === undefined) throw new Error(`${path} describes no ${kind.kind}`);
    return new RandomEdits(schemas, root as Json, random);
  }

  /**
   * Returns a copy with one or two changes, except in its status and in the metadata that belong to the server and the
   * owner.
   */
  edited<T extends KubeObject>(object: T): T {
    const { apiVersion, kind, metadata, status, ...content } = structuredClone(object) as T & { status?: unknown };
    const { apiVersion: _, kind: __, metadata: ___, status: ____, ...fields } = this.#root.properties as Json;
    const { labels, annotations, ...rest } = metadata;
    let next: unknown = content;
    let texts: unknown = { labels: labels ?? {}, annotations: annotations ?? {} };
    // Few changes at a time: if the API server refuses one, it refuses all.
    const changes = this.#random() < 0.7 ? 1 : 2;
    for (let change = 0; change < changes; change += 1) {
      if (this.#random() < 0.1) texts = this.#changed(texts, { properties: { labels: map, annotations: map } }, 0);
      else next = this.#changed(next, { properties: fields }, 0);
    }
    return { apiVersion, kind, ...(next as Json), metadata: { ...rest, ...(texts as Json) }, status } as unknown as T;
  }

  #changed(value: unknown, reference: unknown, depth: number): unknown {
    const schema = this.#resolved(reference);
    if (Array.isArray(value)) return this.#changedList(value, schema, depth);
    if (typeof value === 'object' && value !== null) return this.#changedObject(value as Json, schema, depth);
    return this.#made(schema, depth, value);
  }

  #changedObject(object: Json, schema: Json, depth: number): Json {
    const properties = (schema.properties ?? {}) as Json;
    const present = Object.keys(object);
    const isFree = schema.properties === undefined;
    const absent = isFree ? [this.#oneOf(texts) || 'x'] : Object.keys(properties).filter((name) => !(name in object));
    const schemaOf = (name: string): unknown => properties[name] ?? schema.additionalProperties ?? {};
    const dice = this.#random();
    // Never removes a top-level field: an object without a spec is invalid.
    if (depth > 0 && dice < 0.1 && present.length > 0) {
      const { [this.#oneOf(present)]: _, ...rest } = object;
      return rest;
    }
    if (dice < 0.35 && absent.length > 0 && depth > 0) {
      const name = this.#oneOf(absent);
      return { ...object, [name]: this.#made(schemaOf(name), depth) };
    }
    if (present.length === 0) return object;
    const name = this.#oneOf(present);
    return { ...object, [name]: this.#changed(object[name], schemaOf(name), depth + 1) };
  }

  #changedList(list: readonly unknown[], schema: Json, depth: number): unknown[] {
    const at = this.#below(list.length);
    const dice = this.#random();
    if (list.length === 0 || dice < 0.15) return [...list, this.#made(schema.items, depth)];
    if (dice < 0.25) return list.toSpliced(at, 1);
    if (dice < 0.35) return [...list, structuredClone(list[at])];
    if (dice < 0.45) return list.toReversed();
    return list.with(at, this.#changed(list[at], schema.items, depth + 1));
  }

  #made(reference: unknown, depth: number, before?: unknown): unknown {
    const schema = this.#resolved(reference);
    if (Array.isArray(schema.enum)) return this.#oneOf(schema.enum);
    if (schema.format === 'int-or-string' || schema['x-kubernetes-int-or-string'] === true) {
      return this.#oneOf<unknown>([1, 80, 'http', '50%']);
    }
    switch (schema.type) {
      case 'string':
        if (schema.format === 'date-time') return '2026-01-01T00:00:00Z';
        if (schema.format === 'byte') return this.#oneOf(['AA==', 'AAAA']);
        return before !== undefined && this.#random() < 0.5 ? `${before}x` : this.#oneOf(texts);
      case 'integer':
      case 'number':
        return typeof before === 'number' && this.#random() < 0.5 ? before + 1 : this.#oneOf(integers);
      case 'boolean':
        return before === undefined ? this.#random() < 0.5 : !before;
      case 'array':
        return Array.from({ length: this.#below(3) }, () => this.#made(schema.items, depth + 1));
      default:
        return this.#madeObject(schema, depth);
    }
  }

  #madeObject(schema: Json, depth: number): unknown {
    if (Array.isArray(schema.oneOf)) return this.#oneOf(['1', '500m', '1Gi']);
    if (schema.properties === undefined) {
      return this.#random() < 0.5
        ? {}
        : { [this.#oneOf(['a', 'x'])]: this.#made(schema.additionalProperties, depth + 1) };
    }
    const required = (schema.required ?? []) as readonly string[];
    const chosen = Object.entries(schema.properties as Json).filter(
      ([name]) => required.includes(name) || (depth < 8 && this.#random() < 0.15),
    );
    return Object.fromEntries(chosen.map(([name, property]) => [name, this.#made(property, depth + 1)]));
  }

  #resolved(reference: unknown): Json {
    const schema = (reference ?? { type: 'string' }) as Json;
    const [first] = (schema.allOf ?? []) as readonly Json[];
    const name = schema.$ref ?? first?.$ref;
    return typeof name === 'string' ? (this.#schemas[name.slice('#/components/schemas/'.length)] as Json) : schema;
  }

  #below(count: number): number {
    return Math.floor(this.#random() * count);
  }

  #oneOf<T>(values: readonly T[]): T {
    return values[this.#below(values.length)] as T;
  }
}

const map = { type: 'object', additionalProperties: { type: 'string' } } as const;
