import type { Jsonify, ReadonlyDeep } from 'type-fest';

/** A reference from a child to the object it belongs to; the garbage collector follows it. */
export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

/** The metadata of an object that the API server has stored: what it always sets is not optional. */
export interface ObjectMeta {
  readonly name: string;
  /** Absent for cluster-scoped kinds. */
  readonly namespace?: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Raised by the API server at each change of the desired state; absent for kinds that do not count. */
  readonly generation?: number;
  /** RFC 3339, in UTC. */
  readonly creationTimestamp: string;
  /** RFC 3339, in UTC. Set once somebody has asked for the object's deletion. */
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly OwnerReference[];
  readonly finalizers?: readonly string[];
}

/** Any object as the API server returns it. Items of a list of a built-in kind lack `apiVersion` and `kind`. */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
}

/** An object to send: the same shape, with only the metadata that the sender decides, and no status. */
export type Manifest<T extends KubeObject> = Omit<T, 'metadata' | 'status' | 'apiVersion' | 'kind'> & {
  readonly metadata: Pick<ObjectMeta, 'name'> & Partial<ObjectMeta>;
};

/**
 * A built-in kind's object, from the type that @kubernetes/client-node generates (`BuiltIn<V1Job>`): as it is on the
 * wire, where dates are strings, and readonly all the way down.
 */
export type BuiltIn<T> = Omit<ReadonlyDeep<Jsonify<T>>, 'metadata' | 'apiVersion' | 'kind'> & KubeObject;

/** Names one object of a kind. */
export interface ObjectKey {
  readonly name: string;
  /** Absent for cluster-scoped kinds. */
  readonly namespace?: string;
}

/** The key of an object, or of a manifest for one. */
export function keyOf(object: { readonly metadata: ObjectKey }): ObjectKey {
  const { name, namespace } = object.metadata;
  return namespace === undefined ? { name } : { name, namespace };
}

/** `namespace/name`, or `name` for a cluster-scoped object: the form that logs and maps use. */
export function keyString(key: ObjectKey): string {
  return key.namespace === undefined ? key.name : `${key.namespace}/${key.name}`;
}
