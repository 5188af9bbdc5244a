/** A client's request, with the attributes that the API server uses for it. */
export interface ProxiedRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  /** The verb in the audit log. A path without a resource has the verb `get`. */
  readonly verb: 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete' | 'deletecollection';
  /** The plural: `configmaps`. Empty for a path without a resource, such as `/readyz`. */
  readonly resource: string;
  /** Empty for a request about a whole collection. */
  readonly name: string;
}

/** Selects requests, for a fault. */
export type RequestFilter = (request: ProxiedRequest) => boolean;

/** Selects watches. */
export const isWatch: RequestFilter = ({ verb }) => verb === 'watch';

/** Selects watches that stream the list first (KEP-3157): an informer lists in this way by default. */
export const isStreamedList: RequestFilter = (request) =>
  isWatch(request) && request.query.get('sendInitialEvents') === 'true';

/** Selects lists; each page counts as a request. */
export const isList: RequestFilter = ({ verb }) => verb === 'list';

/** Selects all requests except GET and HEAD. */
export const isWrite: RequestFilter = ({ method }) => method !== 'GET' && method !== 'HEAD';

/** Parses a request's method and target: `/api/v1/namespaces/default/configmaps?limit=500`. */
export function proxiedRequest(method: string, target: string): ProxiedRequest {
  const { pathname: path, searchParams: query } = new URL(target, 'http://localhost');
  const [resource = '', name = ''] = resourceSegments(path);
  return { method, path, query, verb: verbOf(method, query, resource !== '' && name === ''), resource, name };
}

/** Returns the segments of a path after the group, the version and the namespace. */
function resourceSegments(path: string): readonly string[] {
  const segments = path.split('/').slice(1);
  const prefix = { api: 2, apis: 3 }[segments[0] ?? ''] ?? segments.length;
  const rest = segments.slice(prefix);
  return rest[0] === 'namespaces' && rest.length > 2 ? rest.slice(2) : rest;
}

function verbOf(method: string, query: URLSearchParams, isCollection: boolean): ProxiedRequest['verb'] {
  switch (method) {
    case 'POST':
      return 'create';
    case 'PUT':
      return 'update';
    case 'PATCH':
      return 'patch';
    case 'DELETE':
      return isCollection ? 'deletecollection' : 'delete';
    default:
      if (!isCollection) return 'get';
      return ['', '0', 'false'].includes(query.get('watch') ?? '0') ? 'list' : 'watch';
  }
}
