import { defineKind, type ObjectOf } from '@echoperator/runtime';
import type { ObjectMeta } from '@echoperator/runtime/client';
import Type from 'typebox';

/** A kind whose controller a test defines. It owns Parts. */
export const Gadget = defineKind({
  group: 'test.example',
  version: 'v1',
  kind: 'Gadget',
  plural: 'gadgets',
  description: 'Gadget has parts.',
  spec: Type.Object({ size: Type.Integer({ maximum: 100 }), uses: Type.Optional(Type.String()) }),
  status: Type.Object({ phase: Type.Enum(['Waiting', 'Done']), parts: Type.Integer() }),
});
export type Gadget = ObjectOf<typeof Gadget>;

export const gadgetsPath = '/apis/test.example/v1/gadgets';
export const gadgetPath = '/apis/test.example/v1/namespaces/default/gadgets/a';

/** A stored Gadget `a` in the namespace `default`. */
export const gadget = (
  rest: {
    readonly metadata?: Partial<ObjectMeta>;
    readonly spec?: object;
    readonly status?: NonNullable<Gadget['status']>;
  } = {},
): Gadget => ({
  metadata: {
    name: 'a',
    namespace: 'default',
    uid: 'uid-a',
    resourceVersion: '5',
    generation: 1,
    creationTimestamp: '2026-01-01T00:00:00Z',
    ...rest.metadata,
  },
  spec: (rest.spec ?? { size: 1 }) as Gadget['spec'],
  ...(rest.status && { status: rest.status }),
});
