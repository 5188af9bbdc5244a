/**
 * `npm run perturb` runs these steps again and again on a real API server. Each time it perturbs one write or one view
 * of the operator: a crash before or after the write, a lost response, a lagging watch. The result must be the same.
 */
import { customResourceDefinitions } from '@echoperator/runtime';
import { ConfigMap } from '@echoperator/runtime/kinds';
import { ApiServer, perturb } from '@echoperator/testing';
import { pino } from 'pino';
import { controllers } from '../src/main.ts';
import { SampleKind } from '../src/sample-kind.ts';

const name = 'hello';

await using server = await ApiServer.start({ crds: customResourceDefinitions(controllers) });
const { plans, writes } = await perturb({
  connection: server.connection,
  log: pino({ level: 'silent' }),
  onFailure: ({ message }) => {
    console.error(message);
    process.exitCode = 1;
  },
  scenarios: [
    {
      name: 'sample-kind',
      kinds: [SampleKind, ConfigMap],
      addControllers: (operator, namespace) => {
        for (const controller of controllers) controller.add(operator, { namespaces: [namespace] });
      },
      steps: {
        create: ({ client, namespace }) =>
          client.create(SampleKind, { metadata: { namespace, name }, spec: { text: 'Hello, world!' } }),
        'config-map-deleted': ({ client, namespace }) => client.delete(ConfigMap, { namespace, name }),
        delete: ({ client, namespace }) => client.delete(SampleKind, { namespace, name }),
      },
      restores: { 'config-map-deleted': 'create' },
    },
  ],
});
console.log(`${plans.length} plans, ${writes.perturbed} of ${writes.planned} writes perturbed`);
