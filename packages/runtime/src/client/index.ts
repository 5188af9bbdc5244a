/**
 * `@echoperator/runtime/client`: the typed client of the Kubernetes API, and the objects that it reads and writes.
 *
 * A reconciler receives a client. Import this entry to distinguish errors (`isNotFound`, `isConflict`), or to name the
 * options of a request. It also creates a client outside an operator: `connect` finds the API server, `createClient`
 * creates the client.
 */
export { groupOf, type KindView, resourceName } from '../kind/kind.ts';
export type { BuiltIn, ObjectMeta, OwnerReference } from '../kind/object.ts';
export {
  ApiError,
  isAlreadyExists,
  isConflict,
  isExpired,
  isForbidden,
  isInvalid,
  isInvalidField,
  isNamespaceTerminating,
  isNotFound,
  isRefusal,
  isUidMismatch,
  isUnauthorized,
  type Status,
  type StatusCause,
} from './api-error.ts';
export type {
  ApplyOptions,
  Client,
  ClientRequest,
  ClientTrace,
  CreateOptions,
  DeleteCollectionOptions,
  DeleteOptions,
  GetOptions,
  JsonPatchOperation,
  List,
  ListOptions,
  PartialObjectMetadata,
  Patch,
  RequestHook,
  RequestOptions,
  RequestScope,
  RequestTrace,
  Selection,
  Subresource,
  SubresourceOptions,
  VersionedKey,
  WatchEvent,
  WatchOptions,
} from './client.ts';
export { connect } from './connect.ts';
export { type AuthenticationHeaders, type Connection, ConnectionError, type TlsOptions } from './connection.ts';
export { type ConnectedClient, type CreateClientOptions, createClient } from './create-client.ts';
export { cutErrorTexts, cutText, quoteText } from './cut-text.ts';
export type { RequestObserver } from './exchange.ts';
export { type Gate, GateClosedError } from './gate.ts';
export { getIfPresent } from './get-if-present.ts';
export { isInCluster } from './in-cluster.ts';
export { type ContextChoice, kubeconfigConnection } from './kubeconfig.ts';
export { listPages } from './list-pages.ts';
export { NoResponseError } from './no-response-error.ts';
