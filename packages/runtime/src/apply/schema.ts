/**
 * How server-side apply merges a value and which values the server treats as equal, where this differs from plain JSON
 * (https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy).
 */
export type Schema =
  /** With `keepsZero` the server stores false, 0 and ''; without it, it omits them. */
  | { readonly type: 'scalar'; readonly keepsZero: boolean }
  /** `1000m` equals `1`. */
  | { readonly type: 'quantity' }
  | Struct
  | MapOf
  | ListOf
  /** A reference to a struct in {@link builtInTypes}. */
  | { readonly type: 'ref'; readonly name: string }
  /**
   * JSON without a schema. If `isGranular`, the server merges its objects by key and replaces its lists. Otherwise
   * objects may be atomic too.
   */
  | { readonly type: 'schemaless'; readonly isGranular?: true };

/** An object with declared fields. */
export interface Struct {
  readonly type: 'struct';
  /** The schema of each field. Fields that are missing here have the schema {@link Struct.others}. */
  readonly fields: Readonly<Record<string, Schema>>;
  readonly others: Schema;
  /** Fields that even an empty object of a built-in kind has: structs as `{}`, lists and maps as null. */
  readonly alwaysPresent?: readonly string[];
  /** Server-side apply treats the object as one field: an apply replaces all of it. */
  readonly atomic?: true;
}

/** An object with arbitrary keys. */
export interface MapOf {
  readonly type: 'map';
  readonly values: Schema;
  /** The server may omit an empty map. */
  readonly emptyIsAbsent: boolean;
  readonly atomic?: true;
}

export interface ListOf {
  readonly type: 'list';
  /** One atomic value, a set, or items identified by these keys. */
  readonly merge: 'atomic' | 'set' | readonly ListKey[];
  readonly items: Schema;
  readonly emptyIsAbsent: boolean;
}

/** A field that identifies the items of a list, and the server's default for items without it. */
export interface ListKey {
  readonly name: string;
  readonly default?: string | number | boolean;
}

/** JSON without a schema. */
export const schemaless: { readonly type: 'schemaless' } = { type: 'schemaless' };

/** A part of a known schema that keeps unknown fields: the server derives the merge strategy from the values. */
export const granular: { readonly type: 'schemaless'; readonly isGranular: true } = {
  type: 'schemaless',
  isGranular: true,
};
