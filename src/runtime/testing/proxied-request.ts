/** What a client asks of the API server, in the API server's own words. */
export interface ProxiedRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  /** As an audit log names it. A path that leads to no resource has the verb `get`. */
  readonly verb: 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete' | 'deletecollection';
  /** The plural: `configmaps`. Empty for a path that leads to no resource, such as `/readyz`. */
  readonly resource: string;
  /** Empty for a request about a whole collection. */
  readonly name: string;
}

/** Which requests a fault is about. */
export type RequestFilter = (request: ProxiedRequest) => boolean;

/** Watches alone. */
export const isWatch: RequestFilter = ({ verb }) => verb === 'watch';

/** Watches that begin with all that there is (KEP-3157): how an informer lists, unless it is told to do so in pages. */
export const isStreamedList: RequestFilter = (request) =>
  isWatch(request) && request.query.get('sendInitialEvents') === 'true';

/** Lists alone, every page of them. */
export const isList: RequestFilter = ({ verb }) => verb === 'list';

/** All that is not a GET or a HEAD. */
export const isWrite: RequestFilter = ({ method }) => method !== 'GET' && method !== 'HEAD';

/** Reads a request's method and target: `/api/v1/namespaces/default/configmaps?limit=500`. */
export function proxiedRequest(method: string, target: string): ProxiedRequest {
  const { pathname: path, searchParams: query } = new URL(target, 'http://localhost');
  const [resource = '', name = ''] = resourceSegments(path);
  return { method, path, query, verb: verbOf(method, query, resource !== '' && name === ''), resource, name };
}

/** What follows the group, the version and the namespace in a path. */
function resourceSegments(path: string): readonly string[] {
  const segments = path.split('/').slice(1);
  const prefix = { api: 2, apis: 3 }[segments[0] ?? ''] ?? segments.length;
  const rest = segments.slice(prefix);
  return rest[0] === 'namespaces' && rest.length > 2 ? rest.slice(2) : rest;
}

function verbOf(method: string, query: URLSearchParams, collection: boolean): ProxiedRequest['verb'] {
  switch (method) {
    case 'POST':
      return 'create';
    case 'PUT':
      return 'update';
    case 'PATCH':
      return 'patch';
    case 'DELETE':
      return collection ? 'deletecollection' : 'delete';
    default:
      if (!collection) return 'get';
      return ['', '0', 'false'].includes(query.get('watch') ?? '0') ? 'list' : 'watch';
  }
}
