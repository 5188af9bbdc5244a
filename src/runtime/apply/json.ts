export type JsonObject = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** What an object holds under a key, undefined where it holds nothing of its own there: a label may be `toString`. */
export const own = (object: JsonObject, key: string): unknown => (Object.hasOwn(object, key) ? object[key] : undefined);

/** The same of a value that may be no object. */
export const member = (value: unknown, key: string): unknown => (isObject(value) ? own(value, key) : undefined);
