import { done } from '@echoperator/runtime';
import { Job } from '@echoperator/runtime/kinds';
import { Echo } from '../../../src/kinds/echo/kind.ts';
import { controllers } from '../../../src/operator.ts';

/**
 * The operator's program with another reconcile of Echos: for the Echo `waits` it creates a Job, and then never ends.
 * Nothing aborts it, so an operator that waits for its work takes its whole SHUTDOWN_TIMEOUT_SECONDS to stop.
 */
Object.assign(controllers.echo, {
  add: ({ manager }) => {
    manager.controller(Echo, {
      reconcile: async (metadata, { client }) => {
        // Echos that other tests leave behind must not occupy every worker.
        if (metadata.name !== 'waits') return done;
        const container = { name: 'echo', image: 'busybox' };
        const template = { spec: { restartPolicy: 'Never', containers: [container] } };
        await client.create(Job, { metadata, spec: { template } }).catch(() => {});
        return new Promise(() => {});
      },
    });
  },
} satisfies Partial<(typeof controllers)['echo']>);

await import('../../../src/main.ts');
