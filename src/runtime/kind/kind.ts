import type { BuiltIn, KubeObject, OwnerReference } from './object.ts';

/** Carries the object's type in a {@link Kind}; never there at run time. */
declare const objectType: unique symbol;

/** A resource type of the API: what the client needs to address it, and (in types alone) what its objects look like. */
export interface Kind<T extends KubeObject = KubeObject> {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  /** The plural, lower-case name that stands in the URL. */
  readonly plural: string;
  readonly scope: 'Namespaced' | 'Cluster';
  readonly [objectType]?: T;
}

/** The object type of a kind: `ObjectOf<typeof Echo>`. */
export type ObjectOf<K> = K extends Kind<infer T> ? T : never;

/** `group/version`, or `version` for the core group: what an object's `apiVersion` holds. */
export function apiVersionOf(kind: Kind): string {
  return kind.group === '' ? kind.version : `${kind.group}/${kind.version}`;
}

/** The inverse of {@link apiVersionOf}: empty for the core group, whose `apiVersion` is the version alone. */
export const groupOf = (apiVersion: string): string => apiVersion.slice(0, Math.max(apiVersion.indexOf('/'), 0));

/** `plural.group`, or `plural` for the core group: how RBAC, CRDs and kubectl name the resource. */
export function resourceName(kind: Kind): string {
  return kind.group === '' ? kind.plural : `${kind.plural}.${kind.group}`;
}

/** `group/version/plural`: tells versions of one resource apart, whose objects look different. */
export function versionedResource(kind: Kind): string {
  return `${kind.group}/${kind.version}/${kind.plural}`;
}

/**
 * Declares a kind that the API server has built in. Its scope is `Namespaced` unless it says otherwise.
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
 * The reference that makes `owner` the one controller of a child: the garbage collector deletes the child with it,
 * and a foreground deletion of the owner waits for the child.
 */
export function controllerReference(kind: Kind, owner: KubeObject): OwnerReference {
  return {
    apiVersion: apiVersionOf(kind),
    kind: kind.kind,
    name: owner.metadata.name,
    uid: owner.metadata.uid,
    controller: true,
    blockOwnerDeletion: true,
  };
}

/** The reference to the controller of an object, or of a manifest for one, if it has one. */
export function controllerOf(object: {
  readonly metadata: Pick<KubeObject['metadata'], 'ownerReferences'>;
}): OwnerReference | undefined {
  return object.metadata.ownerReferences?.find((reference) => reference.controller === true);
}

/** Whether `owner` controls `child`. By uid: an owner deleted and made again under its name is another object. */
export function isControlledBy(child: KubeObject, owner: KubeObject): boolean {
  return controllerOf(child)?.uid === owner.metadata.uid;
}
