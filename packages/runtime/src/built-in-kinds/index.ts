/**
 * The kinds that Kubernetes itself serves. Each name is both the `Kind` and the type of its objects. A bundler keeps
 * only the imported kinds.
 *
 * They are the resources of all stable versions, such as `v1`. If a group has several stable versions, they are of the
 * newest. `Event` is the kind of events.k8s.io, which controllers use. `CoreEvent` is the kind of the core group.
 *
 * Use `builtInKind` to declare other versions (`v1beta1`, or `v1` of autoscaling), kinds of somebody else's
 * CustomResourceDefinition, and kinds with only some fields. Use `defineKind` to declare your own kind.
 *
 * @example
 * import { ConfigMap } from '@echoperator/runtime/kinds';
 *
 * const settings: ConfigMap = await client.get(ConfigMap, { namespace: 'shop', name: 'settings' });
 */
export * from './built-in-kinds.ts';
