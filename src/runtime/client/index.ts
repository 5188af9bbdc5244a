/** The client: one small typed way to the API server, over pooled HTTP and raw JSON. */
export {
  ApiError,
  isAlreadyExists,
  isConflict,
  isExpired,
  isForbidden,
  isInvalid,
  isNamespaceTerminating,
  isNotFound,
  isRefusal,
  isServerTimeout,
  isTooManyRequests,
  isUidMismatch,
  isUnauthorized,
  type Status,
  type StatusCause,
} from './api-error.ts';
export type {
  ApplyOptions,
  Client,
  ClientRequest,
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
  Scale,
  Selection,
  Subresource,
  SubresourceOptions,
  VersionedKey,
  WatchEvent,
  WatchOptions,
} from './client.ts';
export { connect } from './connect.ts';
export { type AuthenticationHeaders, type Connection, ConnectionError, type TlsOptions } from './connection.ts';
export { Discovery, type KindReference, NotServedError, type RestMapping } from './discovery.ts';
export type { RequestObserver } from './exchange.ts';
export { type Gate, GateClosedError } from './gate.ts';
export { HttpClient, WatchOverdueError } from './http-client.ts';
export { inClusterConnection, isInCluster } from './in-cluster.ts';
export { kubeconfigConnection } from './kubeconfig.ts';
export { NoResponseError } from './no-response-error.ts';
export { type HttpRequest, Transport, type TransportOptions } from './transport.ts';
