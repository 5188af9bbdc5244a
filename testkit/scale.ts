import type { Client, Kind, KubeObject, ObjectKey } from '@echoperator/runtime';

/** The scale subresource (autoscaling/v1). */
export interface Scale {
  readonly spec: { readonly replicas?: number };
  readonly status?: { readonly replicas: number; readonly selector?: string };
}

/**
 * Sets the desired number of replicas by the scale subresource, as `kubectl scale` does.
 *
 * @param replicas absent: only reads the scale.
 */
export async function scale<T extends KubeObject>(
  client: Client,
  kind: Kind<T>,
  key: ObjectKey,
  replicas?: number,
): Promise<Scale> {
  const patch = { type: 'merge', body: { spec: { replicas } } } as const;
  const scaled: unknown = await client.patch(kind, key, patch, { subresource: 'scale' });
  return scaled as Scale;
}
