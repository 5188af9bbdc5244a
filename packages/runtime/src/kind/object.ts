import type { Jsonify, ReadonlyDeep } from 'type-fest';

/** A reference from a child to its owner. The garbage collector deletes the child with the owner. */
export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

/** The metadata of a stored object. Fields that the API server always sets are required. */
export interface ObjectMeta {
  readonly name: string;
  /** Absent for cluster-scoped kinds. */
  readonly namespace?: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** The API server increments it at each change of the desired state. Some kinds do not have it. */
  readonly generation?: number;
  /** RFC 3339, in UTC. */
  readonly creationTimestamp: string;
  /** RFC 3339, in UTC. Set while the object is being deleted. */
  readonly deletionTimestamp?: string;
  /** Seconds. 0: the object is deleted once it has no finalizers. */
  readonly deletionGracePeriodSeconds?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly OwnerReference[];
  readonly finalizers?: readonly string[];
}

/** An object as the API server returns it. Items in lists of built-in kinds lack `apiVersion` and `kind`. */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
}

/** Carries the type of the spec that a client may send; it does not exist at run time. */
export declare const sentSpec: unique symbol;

/**
 * An object to send: without status, and only `metadata.name` is required. The spec of a custom kind may lack the
 * fields that have a default: see `defineKind`.
 */
export type Manifest<T extends KubeObject> = Omit<
  typeof sentSpec extends keyof T
    ? Omit<T, 'spec' | typeof sentSpec> & { readonly spec: NonNullable<T[typeof sentSpec]> }
    : T,
  'metadata' | 'status' | 'apiVersion' | 'kind'
> & {
  readonly metadata: Pick<ObjectMeta, 'name'> & Partial<ObjectMeta>;
};

/**
 * An object of a built-in kind, derived from the type in @kubernetes/client-node (`BuiltIn<V1Job>`). It has the shape
 * of the JSON, so dates are strings, and it is deeply readonly.
 */
export type BuiltIn<T> = Omit<ReadonlyDeep<Jsonify<T>>, 'metadata' | 'apiVersion' | 'kind'> & KubeObject;

/** The name and namespace of an object. */
export interface ObjectKey {
  readonly name: string;
  /** Absent for cluster-scoped kinds. */
  readonly namespace?: string;
}

/** Returns the key of an object or manifest. */
export function keyOf(object: { readonly metadata: ObjectKey }): ObjectKey {
  const { name, namespace } = object.metadata;
  return namespace === undefined ? { name } : { name, namespace };
}

/** Returns `namespace/name`, or `name` for a cluster-scoped object, for logs and maps. */
export function keyString(key: ObjectKey): string {
  return key.namespace === undefined ? key.name : `${key.namespace}/${key.name}`;
}

/** The inverse of {@link keyString}: neither a name nor a namespace holds a slash. */
export function parseKey(key: string): ObjectKey {
  const slash = key.indexOf('/');
  return slash === -1 ? { name: key } : { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}
