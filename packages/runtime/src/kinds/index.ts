/**
 * The kinds that Kubernetes itself serves. Each name is both the `Kind` and the type of its objects. A bundler keeps
 * only those that are imported.
 *
 * They are the resources of all stable versions, such as `v1`; where a group has several, of the newest one. `Event` is the
 * kind of events.k8s.io, in which controllers report; `CoreEvent` is that of the core group.
 *
 * Declare other versions (`v1beta1`, or `v1` of autoscaling), and kinds of somebody else's CustomResourceDefinition, with `builtInKind`. It
 * also declares a kind with some fields of the type only. Declare a kind of your own with `defineKind`.
 *
 * @example
 * import { ConfigMap } from '@echoperator/runtime/kinds';
 *
 * const settings: ConfigMap = await client.get(ConfigMap, { namespace: 'shop', name: 'settings' });
 */
export * from './built-in-kinds.ts';
