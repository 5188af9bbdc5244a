import { builtInKind, type Client } from '@echoperator/runtime';
import { isNotFound } from '@echoperator/runtime/client';
import { CustomResourceDefinition } from '@echoperator/runtime/kinds';
import { eventually } from '../../../testkit/eventually.ts';

/** The kind of the Prometheus operator. */
export const ServiceMonitor = builtInKind({
  group: 'monitoring.coreos.com',
  version: 'v1',
  kind: 'ServiceMonitor',
  plural: 'servicemonitors',
});

/** Makes the API server serve ServiceMonitors with any fields. It does so a moment later. */
export async function serveServiceMonitors(client: Client): Promise<{ remove(): Promise<void> }> {
  const { group, kind, plural, version } = ServiceMonitor;
  const name = `${plural}.${group}`;
  const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
  await client.create(CustomResourceDefinition, {
    metadata: { name },
    spec: {
      group,
      scope: 'Namespaced',
      names: { kind, plural },
      versions: [{ name: version, served: true, storage: true, schema }],
    },
  });
  return {
    async remove() {
      await client.delete(CustomResourceDefinition, { name });
      await eventually('the kind is gone', () =>
        client.get(CustomResourceDefinition, { name }).then(
          () => false,
          (error: unknown) => isNotFound(error),
        ),
      );
    },
  };
}
