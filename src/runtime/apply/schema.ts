/**
 * How a value of the API is compared and merged, as far as that differs from plain JSON: what a server-side apply
 * takes for one field, and which different spellings the server stores as one
 * (https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy).
 */
export type Schema =
  /** Told apart by value; `keepsZero`: the server stores false, 0 and '' as they are, where others it leaves out. */
  | { readonly type: 'scalar'; readonly keepsZero: boolean }
  /** `1000m` and `1` are one. */
  | { readonly type: 'quantity' }
  | Struct
  | MapOf
  | ListOf
  /** A struct of {@link builtInTypes}. */
  | { readonly type: 'ref'; readonly name: string }
  /** JSON that nothing is known of: objects are merged by key, lists compared whole. */
  | { readonly type: 'unknown' };

/** An object with declared fields; the server may add others of them. */
export interface Struct {
  readonly type: 'struct';
  /** What each field is; those that are absent are {@link Struct.others}. */
  readonly fields: Readonly<Record<string, Schema>>;
  readonly others: Schema;
  /** One field for a server-side apply: whoever applies it applies it whole. */
  readonly atomic?: true;
}

/** An object with free keys. */
export interface MapOf {
  readonly type: 'map';
  readonly values: Schema;
  /** Where it is empty the server may leave it out. */
  readonly emptyIsAbsent: boolean;
  readonly atomic?: true;
}

export interface ListOf {
  readonly type: 'list';
  /** Compared whole; as a set; or by the values of these keys. */
  readonly merge: 'atomic' | 'set' | readonly ListKey[];
  readonly items: Schema;
  readonly emptyIsAbsent: boolean;
}

/** A field by which a list's items are told apart, and the server's value for items that lack it. */
export interface ListKey {
  readonly name: string;
  readonly default?: string | number | boolean;
}

/** JSON that nothing is known of. */
export const unknown: Schema = { type: 'unknown' };
