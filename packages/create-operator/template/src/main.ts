import { parseArgs } from 'node:util';
import { runOperator } from '@echoperator/runtime';
import { sampleKindController } from './sample-kind.ts';

const name = 'sample-operator';

/** Every controller of the operator. `npm run generate` derives the chart's CRDs and RBAC rules from this list. */
export const controllers = [sampleKindController];

// False when a test or `npm run generate` imports this file.
if (import.meta.main) {
  const { context } = parseArgs({ options: { context: { type: 'string' } } }).values;
  await runOperator(process, {
    name,
    controllers,
    leaderElection: name,
    port: 8080,
    // Outside a pod: the named context of the kubeconfig, or the current one if its cluster is on this machine.
    context,
    loopbackOnly: true,
  });
}
