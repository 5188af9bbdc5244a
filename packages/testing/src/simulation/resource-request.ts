import type { Kind, KubeObject } from '@echoperator/runtime';
import { getMember, parseFieldSelector, parseLabelSelector } from '@echoperator/runtime/internal';
import { NotSimulatedError, RefusedError, type StoredObject } from './strategy.ts';

/** An HTTP request to the simulated API server. */
export interface SimulatedRequest {
  readonly method: string;
  /** Includes the query. */
  readonly path: string;
  /** Names are in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  /** The sender: `operator-1`, `user`. Undefined for the cluster itself, whose requests are never refused. */
  readonly from?: string;
}

/** A request that `refuse` may refuse. */
export interface AdmittedRequest {
  readonly verb: 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'apply' | 'delete' | 'deletecollection';
  readonly kind: Kind;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  readonly subresource: 'status' | undefined;
  /** The object that a write would store. Undefined for reads and deletions. */
  readonly object: KubeObject | undefined;
  /** The sender: a process, such as `operator-1`, or `user`. */
  readonly from: string;
}

/** A parsed request. */
export interface ResourceRequest {
  readonly verb: AdmittedRequest['verb'];
  readonly kind: Kind;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  readonly subresource: 'status' | undefined;
  readonly query: URLSearchParams;
  /** Whether the response has only the metadata (`PartialObjectMetadata`). */
  readonly isMetadataOnly: boolean;
  readonly contentType: string;
  readonly body: unknown;
  readonly from: string | undefined;
}

const pathPattern =
  /^\/(?:api\/(?<coreVersion>v1)|apis\/(?<group>[^/]+)\/(?<version>[^/]+))(?:\/namespaces\/(?<namespace>[^/]+))?\/(?<plural>[^/]+)(?:\/(?<name>[^/]+)(?:\/(?<subresource>[^/]+))?)?$/;

/** The parameters that the client of the runtime sends. */
const parameters = new Set([
  'allowWatchBookmarks',
  'continue',
  'dryRun',
  'fieldManager',
  'fieldSelector',
  'fieldValidation',
  'force',
  'labelSelector',
  'limit',
  'resourceVersion',
  'resourceVersionMatch',
  'sendInitialEvents',
  'timeoutSeconds',
  'watch',
]);

/**
 * Parses a request.
 *
 * @param kindAt returns the kind that the server serves at a path.
 * @throws {@link NotSimulatedError} for a request that the server does not support, {@link RefusedError} for a kind
 *   that it does not serve.
 */
export function readRequest(
  request: SimulatedRequest,
  kindAt: (group: string, version: string, plural: string) => Kind | undefined,
): ResourceRequest {
  const { headers } = request;
  const [path = '', queryText = ''] = request.path.split('?');
  const query = new URLSearchParams(queryText);
  for (const [name] of query) if (!parameters.has(name)) throw notSimulated(request, `the parameter ${name}`);
  const parts = partsOf(path);
  if (parts === undefined) throw notSimulated(request, 'this path');
  const { group, version, plural, namespace, name, subresource } = parts;
  const kind = kindAt(group, version, plural);
  if (kind === undefined)
    throw notSimulated(request, `${plural} of ${group || 'the core group'} ${version}: add a custom kind to \`kinds\``);
  if (subresource !== undefined && subresource !== 'status')
    throw notSimulated(request, `the subresource ${subresource}`);
  const accept = headers.accept ?? '';
  const isMetadataOnly = accept.includes('as=PartialObjectMetadata');
  if (!isMetadataOnly && accept.includes('as=')) throw notSimulated(request, `the response type ${accept}`);
  const contentType = headers['content-type'] ?? '';
  return {
    verb: verbOf(request, name !== undefined, contentType, query),
    kind,
    namespace,
    name,
    subresource,
    query,
    isMetadataOnly,
    contentType,
    body: request.body === undefined ? undefined : JSON.parse(request.body),
    from: request.from,
  };
}

function partsOf(path: string) {
  const groups = pathPattern.exec(path)?.groups;
  if (groups === undefined) return undefined;
  const decoded = (part: string | undefined) => (part === undefined ? undefined : decodeURIComponent(part));
  const { coreVersion, group = '', version = coreVersion ?? '', plural = '', subresource } = groups;
  const [namespace, name] = [decoded(groups.namespace), decoded(groups.name)];
  return { group, version, plural, namespace, name, subresource };
}

function verbOf(
  request: SimulatedRequest,
  isNamed: boolean,
  contentType: string,
  query: URLSearchParams,
): ResourceRequest['verb'] {
  switch (request.method) {
    case 'GET':
      if (isNamed) return 'get';
      return query.get('watch') === 'true' ? 'watch' : 'list';
    case 'POST':
      if (!isNamed) return 'create';
      break;
    case 'PUT':
      if (isNamed) return 'update';
      break;
    case 'PATCH':
      if (!isNamed) break;
      return contentType === 'application/apply-patch+yaml' ? 'apply' : 'patch';
    case 'DELETE':
      return isNamed ? 'delete' : 'deletecollection';
  }
  throw notSimulated(request, 'this method');
}

export const notServed = (): RefusedError =>
  new RefusedError({ code: 404, reason: 'NotFound', message: 'the server could not find the requested resource' });

export const notSimulated = (request: Pick<SimulatedRequest, 'method' | 'path'>, what: string): NotSimulatedError =>
  new NotSimulatedError(`${request.method} ${request.path}: the simulated API server does not know ${what}`);

/** Whether a list or a watch selects the object. */
export type ObjectFilter = (object: StoredObject) => boolean;

/**
 * Returns the filter of a list, a watch or a deletion of a collection.
 *
 * @throws {@link NotSimulatedError} for a field selector with fields other than those that all kinds have, and those of
 *   Events.
 */
export function filterOf({
  kind,
  namespace,
  query,
}: Pick<ResourceRequest, 'kind' | 'namespace' | 'query'>): ObjectFilter {
  const labels = parse('labelSelector', query, parseLabelSelector);
  const fields =
    kind.kind === 'Event'
      ? parse('fieldSelector', query, parseEventFields)
      : parse('fieldSelector', query, parseFieldSelector);
  return (object) =>
    (namespace === undefined || object.metadata.namespace === namespace) &&
    labels((key) => object.metadata.labels?.[key]) &&
    fields((path) => textAt(object, path));
}

type Selector = NonNullable<ReturnType<typeof parseLabelSelector>>;

function parse(name: string, query: URLSearchParams, parser: (text: string) => Selector | undefined): Selector {
  const text = query.get(name);
  const selector = text === null ? () => true : parser(text);
  if (selector === undefined) throw new NotSimulatedError(`the simulated API server does not know the ${name} ${text}`);
  return selector;
}

/** The fields by which Events can be selected (k8s.io/kubernetes/pkg/apis/events/v1/conversion.go). */
const eventTerm =
  /^(metadata\.name(?:space)?|regarding\.(?:apiVersion|fieldPath|kind|name(?:space)?|resourceVersion|uid)|reason|reportingController|type)=([^=!\\]*)$/;

/** Parses a selector of Events, which have more selectable fields than other kinds: `regarding.uid=…,type=Warning`. */
function parseEventFields(text: string): Selector | undefined {
  const terms = text.split(',').map((term) => eventTerm.exec(term));
  if (terms.includes(null)) return undefined;
  return (read) => terms.every((term) => (read(term?.[1] ?? '') ?? '') === term?.[2]);
}

function textAt(object: StoredObject, path: string): string | undefined {
  let value: unknown = object;
  for (const name of path.split('.')) value = getMember(value, name);
  return value === undefined ? undefined : String(value);
}
