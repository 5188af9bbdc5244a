import type { BuiltIn, KubeObject, ObjectKey, OwnerReference } from './object.ts';

/** Carries the object's type in a {@link Kind}; it does not exist at run time. */
declare const objectType: unique symbol;

/** A resource type of the API. `T` is the type of its objects. */
export interface Kind<T extends KubeObject = KubeObject> {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  /** The plural in lower case, which is part of the URL. */
  readonly plural: string;
  readonly scope: 'Namespaced' | 'Cluster';
  /** Absent: every object of the resource, with all its fields. See {@link metadataOnly} and {@link selected}. */
  readonly view?: KindView;
  readonly [objectType]?: T;
}

/** Which objects of a resource a kind stands for, and how much of them. */
export interface KindView {
  readonly isMetadataOnly?: true;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

/** The object type of a kind: `ObjectOf<typeof Echo>`. */
export type ObjectOf<K> = K extends Kind<infer T> ? T : never;

/** Returns an object's `apiVersion`: `group/version`, or `version` for the core group. */
export function apiVersionOf(kind: Kind): string {
  return kind.group === '' ? kind.version : `${kind.group}/${kind.version}`;
}

/** Returns the group in an `apiVersion`; empty for the core group. */
export const groupOf = (apiVersion: string): string => apiVersion.slice(0, Math.max(apiVersion.indexOf('/'), 0));

/** Returns the name of the resource in RBAC, CRDs and kubectl: `plural.group`, or `plural` for the core group. */
export function resourceName(kind: Kind): string {
  return kind.group === '' ? kind.plural : `${kind.plural}.${kind.group}`;
}

/** Returns `group/version/plural`, which identifies one version of a resource. */
export function versionedResource(kind: Kind): string {
  return `${kind.group}/${kind.version}/${kind.plural}`;
}

/**
 * Returns the kind of which clients and informers receive only the metadata (PartialObjectMetadata). Use it wherever a
 * kind is expected, if no reconcile reads the other fields: a cache of metadata is much smaller, and the API server
 * encodes less. The permissions are those of the kind itself.
 *
 * The caches of a kind and of its metadata are separate: a definition that names only the metadata has no cache of the
 * whole objects.
 *
 * @example
 * const SecretMetadata = metadataOnly(Secret);
 * const secrets = await client.list(SecretMetadata);
 */
export function metadataOnly({ group, version, kind, plural, scope, view }: Kind): Kind {
  return { group, version, kind, plural, scope, view: { ...view, isMetadataOnly: true } };
}

/**
 * Returns the kind limited to the objects that the selectors match. Use it wherever a kind is expected: each selection
 * has a cache of its own, and lists, watches and `deleteCollection` are limited to it. Requests about one object, and
 * the permissions, are those of the kind itself.
 *
 * @example
 * const WebPods = selected(Pod, { labelSelector: 'app=web' });
 * const pods = await client.list(WebPods);
 */
export function selected<K extends Kind>(kind: K, selectors: Pick<KindView, 'labelSelector' | 'fieldSelector'>): K {
  return { ...kind, view: { ...kind.view, ...selectorsOf(kind, selectors) } };
}

/** Returns the selectors of a kind's view, together with further ones: an object must match both. */
export function selectorsOf(
  { view }: Kind,
  { labelSelector, fieldSelector }: Pick<KindView, 'labelSelector' | 'fieldSelector'>,
): Pick<KindView, 'labelSelector' | 'fieldSelector'> {
  const [labels, fields] = [bothOf(view?.labelSelector, labelSelector), bothOf(view?.fieldSelector, fieldSelector)];
  return {
    ...(labels !== undefined && { labelSelector: labels }),
    ...(fields !== undefined && { fieldSelector: fields }),
  };
}

const bothOf = (a: string | undefined, b: string | undefined): string | undefined =>
  a === undefined || b === undefined ? (a ?? b) : `${a},${b}`;

/**
 * Returns a text that is equal for equal selectors. The order of the requirements, and the spaces around them, do not
 * count.
 */
export const canonicalSelector = (selector: string): string => [...new Set(requirementsOf(selector))].sort().join(',');

/** Splits a selector. A comma inside parentheses belongs to a set; other commas separate requirements. */
export const requirementsOf = (selector: string): readonly string[] =>
  selector
    .split(/,(?![^(]*\))/)
    .map((requirement) => requirement.trim())
    .filter((requirement) => requirement !== '');

/** Like {@link versionedResource}, but also distinguishes the views of a resource. */
export function viewedResource(kind: Kind): string {
  const resource = versionedResource(kind);
  return kind.view === undefined ? resource : `${resource} ${describeView(kind.view)}`;
}

/** Returns a view as a text, for metrics and maps: `metadata, labels app=web`. Empty: everything. */
export function describeView({ isMetadataOnly, labelSelector = '', fieldSelector = '' }: KindView): string {
  const [labels, fields] = [canonicalSelector(labelSelector), canonicalSelector(fieldSelector)];
  const parts = [
    isMetadataOnly && 'metadata',
    labels !== '' && `labels ${labels}`,
    fields !== '' && `fields ${fields}`,
  ];
  return parts.filter((part) => typeof part === 'string').join(', ');
}

/**
 * Checks that a key fits the scope of its kind: no object has another key.
 *
 * @throws TypeError for a namespaced kind without a namespace, and for a cluster-scoped kind with one.
 */
export function requireKeyInScope(kind: Kind, { name, namespace = '' }: ObjectKey): void {
  if (kind.scope === 'Namespaced' && namespace === '')
    throw new TypeError(`${resourceName(kind)} ${name} is namespaced: set metadata.namespace`);
  if (kind.scope !== 'Namespaced' && namespace !== '')
    throw new TypeError(
      `${resourceName(kind)} ${name} is cluster-scoped: remove metadata.namespace, which is "${namespace}"`,
    );
}

/**
 * Declares a built-in kind of the API server. The default scope is `Namespaced`.
 *
 * @example
 * import type { V1Job } from '@kubernetes/client-node';
 * const Job = builtInKind<V1Job>({ group: 'batch', version: 'v1', kind: 'Job', plural: 'jobs' });
 */
export function builtInKind<T>(
  kind: Pick<Kind, 'group' | 'version' | 'kind' | 'plural'> & Partial<Pick<Kind, 'scope'>>,
): Kind<BuiltIn<T>> {
  return { scope: 'Namespaced', ...kind };
}

/**
 * Returns the owner reference that makes `owner` the controller of a child. The garbage collector deletes the child
 * with the owner, and a foreground deletion of the owner waits for the child.
 *
 * @throws RangeError if the owner says that it is of another kind: the garbage collector would delete the child.
 */
export function controllerReference(kind: Kind, owner: KubeObject): OwnerReference {
  const { apiVersion = apiVersionOf(kind), kind: ownKind = kind.kind } = owner;
  if (ownKind !== kind.kind || groupOf(apiVersion) !== kind.group)
    throw new RangeError(
      `the owner ${owner.metadata.name} is not a ${kind.kind} of ${apiVersionOf(kind)}: ` +
        `it is a ${ownKind} of ${apiVersion}`,
    );
  return {
    apiVersion: apiVersionOf(kind),
    kind: kind.kind,
    name: owner.metadata.name,
    uid: owner.metadata.uid,
    controller: true,
    blockOwnerDeletion: true,
  };
}

/** Returns the controller reference of an object or manifest, undefined if there is none. */
export function controllerOf(object: {
  readonly metadata: Pick<KubeObject['metadata'], 'ownerReferences'>;
}): OwnerReference | undefined {
  return object.metadata.ownerReferences?.find((reference) => reference.controller === true);
}

/**
 * True if `owner` controls `child`. Compares by uid, because a recreated owner with the same name is another object.
 */
export function isControlledBy(child: KubeObject, owner: KubeObject): boolean {
  return controllerOf(child)?.uid === owner.metadata.uid;
}
