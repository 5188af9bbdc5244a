/**
 * The program whose output is the README's picture of `perturb`. It finds a defect that is made on purpose: the controller
 * writes the status only in the reconcile that created the child. `KUBECONFIG` names an API server with the Echo's CRD.
 */
import { controllerReference, done, owns } from '@echoperator/runtime';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import { ConfigMap } from '@echoperator/runtime/kinds';
import { perturb, type Scenario } from '@echoperator/testing';
import { pino } from 'pino';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { customManifest } from '../../testkit/with-reason.ts';

const forgetful: Scenario = {
  name: 'forgetful',
  kinds: [Echo, ConfigMap],
  addControllers: ({ manager }, namespace) => {
    const scope = { namespaces: [namespace] };
    const echos = manager.informer(Echo, scope).store;
    const children = manager.informer(ConfigMap, scope).store;
    manager.controller(Echo, {
      watches: [owns(Echo, ConfigMap)],
      reconcile: async (key, { client }) => {
        const echo = echos.get(key);
        if (echo === undefined || [...children.byOwner(echo.metadata.uid)].length > 0) return done;
        const metadata = { namespace, name: key.name, ownerReferences: [controllerReference(Echo, echo)] };
        await client.create(ConfigMap, { metadata });
        await client.mergeStatus(Echo, echo.metadata, { observedGeneration: echo.metadata.generation });
        return done;
      },
    });
  },
  steps: {
    create: ({ client, namespace }) =>
      client.create(Echo, customManifest({ name: 'hello', namespace }, { message: 'Hola' })),
    delete: ({ client, namespace }) => client.delete(Echo, { name: 'hello', namespace }),
  },
};

await perturb({
  connection: await kubeconfigConnection(process.env.KUBECONFIG),
  log: pino({ level: 'silent' }),
  scenarios: [forgetful],
  only: ['forgetful/create write 2 unsent'],
  timeoutMs: 5000,
  onFailure: ({ message }) => console.error(message),
});
