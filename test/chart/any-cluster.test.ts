import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '../../testkit/eventually.ts';
import { cluster, first, helmOf, second, setUp, tearDown, uninstallAll, upgrade } from './environment/releases.ts';
import { ServiceMonitor, serveServiceMonitors } from './environment/service-monitors.ts';
import { type Helm, helmNames } from './helm.ts';

beforeAll(() => setUp());
afterEach(() => uninstallAll());
afterAll(() => tearDown());

const originalValues = `--values=${join(import.meta.dirname, 'original-values.yaml')}`;

describe.each(helmNames)('on a cluster with the Prometheus operator, by %s', (name) => {
  let kind: Awaited<ReturnType<typeof serveServiceMonitors>>;
  let helm: Helm;
  beforeAll(async () => {
    kind = await serveServiceMonitors(cluster.client);
    helm = await helmOf(name);
    await eventually('Helm discovers ServiceMonitors', async () => {
      const rendering = await helm.render({ namespace: first, dryRun: 'server' });
      return rendering.all('ServiceMonitor').length > 0;
    });
  });
  afterAll(() => kind.remove());

  const monitors = async (namespace: string) =>
    (await cluster.client.list(ServiceMonitor, { namespace })).items.map(({ metadata }) => metadata.name);

  test("the ServiceMonitor is in the release's namespace by default", async () => {
    await upgrade(helm, { namespace: first });
    expect(await monitors(first)).toEqual([`demo-echoperator.${first}`]);
  });

  test("the original's values file installs although its namespace for ServiceMonitors is missing, and the notes say so", async () => {
    await upgrade(helm, { namespace: first, flags: [originalValues] });
    expect(await monitors('')).toEqual([]);
    const notes = await helm.notes(
      { monitoring: { namespace: 'observability' } },
      { namespace: first, dryRun: 'server' },
    );
    expect(notes).toContain('created no ServiceMonitor, because monitoring.namespace is "observability"');
  });

  test('the ServiceMonitor is in another namespace that exists, and leaves it with the value', async () => {
    await upgrade(helm, { namespace: first, values: { monitoring: { namespace: second } } });
    expect(await monitors(second)).toEqual([`demo-echoperator.${first}`]);
    await upgrade(helm, { namespace: first });
    expect(await monitors(second)).toEqual([]);
  });
});
