import { controllerReference, done, owns } from '@echoperator/runtime';
import { ConfigMap } from '@echoperator/runtime/kinds';
import type { Scenario } from '@echoperator/testing';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { customManifest } from '../../testkit/with-reason.ts';

const name = 'hello';

/**
 * A controller that relies on the runtime alone: its child has a random name, so only an up-to-date cache prevents a
 * second one. Our own controllers would survive a stale cache.
 */
export const naiveScenario: Scenario = {
  name: 'naive',
  kinds: [Echo, ConfigMap],
  canonicalName: (child) => child.replace(/^hello-.*/, 'hello-*'),
  restores: { 'child-deleted': 'create' },
  addControllers: ({ manager }, namespace) => {
    const scope = { namespaces: [namespace] };
    const echos = manager.informer(Echo, scope).store;
    const children = manager.informer(ConfigMap, scope).store;
    manager.controller(Echo, {
      watches: [owns(Echo, ConfigMap)],
      reconcile: async (key, { client }) => {
        const echo = echos.get(key);
        if (echo === undefined) return done;
        const [child] = children.byOwner(echo.metadata.uid);
        if (child === undefined) {
          const metadata = { namespace, name: `${name}-${crypto.randomUUID().slice(0, 5)}` };
          await client.create(ConfigMap, {
            metadata: { ...metadata, ownerReferences: [controllerReference(Echo, echo)] },
          });
        }
        await client.mergeStatus(Echo, echo.metadata, { observedGeneration: echo.metadata.generation });
        return done;
      },
    });
  },
  steps: {
    create: ({ client, namespace }) => client.create(Echo, customManifest({ name, namespace }, { message: 'one' })),
    'child-deleted': async ({ client, namespace }) => {
      for (const { metadata } of (await client.list(ConfigMap, { namespace })).items) {
        if (metadata.name.startsWith(name)) await client.delete(ConfigMap, metadata);
      }
    },
    delete: ({ client, namespace }) => client.delete(Echo, { name, namespace }),
  },
};
