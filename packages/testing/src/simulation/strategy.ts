import type { Kind } from '@echoperator/runtime';
import type { OwnerReference, Status } from '@echoperator/runtime/client';
import type { Schema } from '@echoperator/runtime/internal';

/** A field manager's entry in `metadata.managedFields`. */
export interface ManagedFieldsEntry {
  readonly manager: string;
  readonly operation: 'Apply' | 'Update';
  readonly apiVersion: string;
  /** RFC 3339, in seconds. An apply that only takes over fields with equal values has none. */
  readonly time?: string;
  readonly fieldsType: 'FieldsV1';
  readonly fieldsV1: FieldsV1;
  readonly subresource?: string;
}

/** A set of fields: `{ 'f:spec': { 'f:replicas': {} } }` (structured-merge-diff, fieldpath/serialize). */
export interface FieldsV1 {
  readonly [step: string]: FieldsV1;
}

/** An immutable JSON object in the simulated server. Only the members of its metadata are known. */
export interface StoredObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: StoredMetadata;
  readonly [member: string]: unknown;
}

export interface StoredMetadata {
  readonly name: string;
  readonly namespace?: string;
  readonly generateName?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly deletionGracePeriodSeconds?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly OwnerReference[];
  readonly finalizers?: readonly string[];
  readonly managedFields?: readonly ManagedFieldsEntry[];
}

/**
 * What the API server does to the objects of one kind before it stores them. Excludes what it does to all kinds
 * (metadata, versions, field managers, preconditions). Pure: each method returns a new object, and never changes its
 * arguments.
 *
 * Source: `rest.RESTCreateStrategy` and `rest.RESTUpdateStrategy` of k8s.io/apiserver.
 */
export interface Strategy {
  readonly kind: Kind;
  /** How server-side apply merges. */
  readonly schema: Schema;
  /**
   * Whether the kind has a `status` subresource. If so, other writes keep the status, and writes of the status keep
   * everything else.
   */
  readonly hasStatus: boolean;
  /**
   * Whether an update must contain the object's resourceVersion (`AllowUnconditionalUpdate` is false). Default false.
   */
  readonly requiresVersion?: boolean;
  /** Whether the response to a deletion is the object instead of a `Status`. Default false. */
  readonly returnsDeleted?: boolean;
  /** The fields that a write of the object, or of its status, does not change. */
  resetFields?(subresource: 'status' | undefined): FieldsV1;
  /**
   * Prunes unknown fields and fills in defaults, as the API server does when it decodes a body. @throws
   * {@link RefusedError} if the object cannot be decoded.
   */
  decode(object: StoredObject): StoredObject;
  /** Prepares and validates a new object, which has a name, uid and creation time. @throws {@link RefusedError} */
  create(object: StoredObject): StoredObject;
  /**
   * Prepares and validates a change of an object, and sets its generation.
   *
   * @throws {@link RefusedError}
   */
  update(object: StoredObject, old: StoredObject, subresource: 'status' | undefined): StoredObject;
  /**
   * Returns how many seconds a deleted object remains, so that its kubelet can stop it. 0: the object is removed
   * immediately. Undefined or absent: the kind has no graceful deletion.
   *
   * @param requested the `gracePeriodSeconds` of the request
   */
  deletionGraceSeconds?(object: StoredObject, requested: number | undefined): number | undefined;
}

/** The simulated server refuses a request, as the API server does. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';
  readonly status: Status & { readonly code: number };

  constructor(status: Status & { readonly code: number }) {
    super(status.message ?? status.reason ?? String(status.code));
    this.status = status;
  }
}

/** The refusal of a body that cannot be decoded. */
export const badRequest = (message: string): RefusedError =>
  new RefusedError({ code: 400, reason: 'BadRequest', message });

/** The simulated server does not know the API server's behavior for this request, so it does nothing. */
export class NotSimulatedError extends Error {
  override readonly name = 'NotSimulatedError';
}
