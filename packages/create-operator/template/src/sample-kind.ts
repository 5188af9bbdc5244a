import { defineController, defineKind } from '@echoperator/runtime';
import { ConfigMap } from '@echoperator/runtime/kinds';
import Type from 'typebox';

/** The custom resource: its fields, what they accept, and what `kubectl get` prints. */
export const SampleKind = defineKind({
  group: 'sample.example.com',
  version: 'v1alpha1',
  kind: 'SampleKind',
  plural: 'samplekinds',
  description: 'SampleKind keeps a ConfigMap of the same name with a text.',
  spec: Type.Object({
    text: Type.String({ minLength: 1, maxLength: 1000, description: 'The text of the ConfigMap.' }),
  }),
  status: Type.Object({
    configMap: Type.String({ description: 'The name of the ConfigMap.' }),
  }),
  printerColumns: [{ name: 'Text', type: 'string', jsonPath: '.spec.text' }],
});

/** Reconciles an object when it or its ConfigMap changes. `reconcile` must be idempotent: it may run at any time. */
export const sampleKindController = defineController(SampleKind, {
  owns: [ConfigMap],
  reasons: {
    Written: { ready: 'True', event: 'Normal', meaning: 'The ConfigMap has the text.' },
  },
  reconcile: async ({ spec }, { apply }) => {
    // By default the child has the name of its owner. The runtime deletes it with the owner.
    const { metadata } = await apply(ConfigMap, { data: { text: spec.text } });
    return {
      reason: 'Written',
      message: `ConfigMap ${metadata.name} has the text`,
      status: { configMap: metadata.name },
    };
  },
});
