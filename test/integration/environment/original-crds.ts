import type { Manifest } from '../../../src/runtime/index.ts';
import type { CustomResourceDefinition } from '../../../src/runtime/kinds/index.ts';

/** The tutorial's definition of Echo: only a message, without a status subresource. */
export const originalEchoCrd: Manifest<CustomResourceDefinition> = {
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
