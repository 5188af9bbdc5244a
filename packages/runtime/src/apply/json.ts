export type JsonObject = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Returns an own property, undefined if there is none: a label may be called `toString`. */
export const getOwn = (object: JsonObject, key: string): unknown =>
  Object.hasOwn(object, key) ? object[key] : undefined;

/** Like {@link getOwn}, and undefined if the value is not an object. */
export const getMember = (value: unknown, key: string): unknown => (isObject(value) ? getOwn(value, key) : undefined);
