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
  readonly [objectType]?: T;
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
