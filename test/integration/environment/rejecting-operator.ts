/**
 * Perturbs an operator with a rejection that nobody handles, and prints the message of the error.
 *
 *     node test/integration/environment/rejecting-operator.ts KUBECONFIG
 */

import { done } from '@echoperator/runtime';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import { ConfigMap } from '@echoperator/runtime/kinds';
import { perturb } from '@echoperator/testing';
import { pino } from 'pino';

const name = 'hello';

const report = perturb({
  connection: await kubeconfigConnection(process.argv[2] ?? ''),
  log: pino({ level: 'silent' }),
  scenarios: [
    {
      name: 'rejecting',
      kinds: [ConfigMap],
      addControllers: ({ manager }, namespace) => {
        manager.informer(ConfigMap, { namespaces: [namespace] });
        manager.controller(ConfigMap, {
          reconcile: async () => {
            void Promise.reject(new Error('nobody handles this'));
            return done;
          },
        });
      },
      steps: {
        create: ({ client, namespace }) => client.create(ConfigMap, { metadata: { namespace, name } }),
        delete: ({ client, namespace }) => client.delete(ConfigMap, { namespace, name }),
      },
    },
  ],
});
await report.catch(({ message }) => console.log(message));
