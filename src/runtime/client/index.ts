/** The client: one small typed way to the API server, over pooled HTTP and raw JSON. */
export {
  ApiError,
  isAlreadyExists,
  isConflict,
  isExpired,
  isNamespaceTerminating,
  isNotFound,
  type Status,
} from './api-error.ts';
export type {
  ApplyOptions,
  Client,
  DeleteCollectionOptions,
  DeleteOptions,
  GetOptions,
  JsonPatchOperation,
  List,
  ListOptions,
  PartialObjectMetadata,
  Patch,
  RequestOptions,
  Scale,
  Selection,
  Subresource,
  SubresourceOptions,
  VersionedKey,
  WatchEvent,
  WatchOptions,
} from './client.ts';
export { connect } from './connect.ts';
export { type Connection, ConnectionError, type TlsOptions } from './connection.ts';
export { HttpClient } from './http-client.ts';
export { inClusterConnection, isInCluster } from './in-cluster.ts';
export { kubeconfigConnection } from './kubeconfig.ts';
export { type HttpRequest, type RequestObserver, Transport, type TransportOptions } from './transport.ts';
