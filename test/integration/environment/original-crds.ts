import type { CustomResourceDefinition } from '../../../src/runtime/client/index.ts';
import type { Manifest, ObjectOf } from '../../../src/runtime/index.ts';

/** Echo's definition as the tutorial's operator has it: a message and nothing else, no status subresource. */
export const originalEchoCrd: Manifest<ObjectOf<typeof CustomResourceDefinition>> = {
  metadata: { name: 'echos.mmontes.io' },
  spec: {
    group: 'mmontes.io',
    scope: 'Namespaced',
    names: { kind: 'Echo', listKind: 'EchoList', plural: 'echos', singular: 'echo', shortNames: ['ec'] },
    versions: [
      {
        name: 'v1alpha1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: { type: 'object', required: ['message'], properties: { message: { type: 'string' } } },
            },
          },
        },
      },
    ],
  },
};
