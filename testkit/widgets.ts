import { builtInKind, type ObjectOf } from '@echoperator/runtime';
import type { ObjectMeta } from '@echoperator/runtime/client';

/** Kinds for unit tests: a Widget owns Parts. */
export const Widget = builtInKind<{
  spec?: { size: number };
  status?: { observedGeneration?: number; phase?: string };
}>({
  group: 'test.example',
  version: 'v1',
  kind: 'Widget',
  plural: 'widgets',
});
export type Widget = ObjectOf<typeof Widget>;

export const Part = builtInKind<{ spec?: { size: number } }>({
  group: 'test.example',
  version: 'v1',
  kind: 'Part',
  plural: 'parts',
});
export type Part = ObjectOf<typeof Part>;

/** A kind without namespaces. */
export const Planet = builtInKind<object>({
  group: 'test.example',
  version: 'v1',
  kind: 'Planet',
  plural: 'planets',
  scope: 'Cluster',
});

export const widgetsPath = '/apis/test.example/v1/widgets';
export const partsPath = '/apis/test.example/v1/parts';

/** A stored Widget in namespace `default`. Its uid contains its name. @param rest overrides its metadata */
export function stored(name: string, resourceVersion: string, rest: Partial<ObjectMeta> = {}): Widget {
  return {
    metadata: {
      name,
      namespace: 'default',
      uid: `uid-${name}`,
      resourceVersion,
      creationTimestamp: '2026-01-01T00:00:00Z',
      ...rest,
    },
  };
}
