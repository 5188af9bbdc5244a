import { customResourceDefinition } from '@echoperator/runtime';
import { CustomResourceDefinition, Job } from '@echoperator/runtime/kinds';
import { eventually, type Scenario, type ScenarioWorld } from '@echoperator/testing';
import { echoController } from '../../../src/kinds/echo/controller.ts';
import { Echo } from '../../../src/kinds/echo/kind.ts';
import { podSettings } from '../../../testkit/pod-settings.ts';
import type { TestCluster } from '../../../testkit/test-cluster.ts';
import { customManifest } from '../../../testkit/with-reason.ts';
import { addDefined, createdWithChild, name, remove } from '../../plans/scenario-steps.ts';
import { originalEchoCrd } from './original-crds.ts';

/**
 * Replaces the CustomResourceDefinition of Echo, and waits until the API server follows it. That also ends every watch
 * of Echos, after which the operator watches anew.
 */
async function defineEcho(world: ScenarioWorld, { spec }: Pick<CustomResourceDefinition, 'spec'>): Promise<void> {
  const { client, namespace } = world;
  const { metadata } = await client.list(Echo, { namespace });
  const { resourceVersion } = metadata;
  const { signal } = new AbortController();
  const watch = async (): Promise<void> => {
    for await (const _ of client.watch(Echo, { namespace, resourceVersion, timeoutSeconds: 60, signal }));
  };
  // An error ends it too.
  const watched = watch().catch(() => {});
  const body = [{ op: 'replace', path: '/spec', value: spec }] as const;
  await client.patch(CustomResourceDefinition, { name: originalEchoCrd.metadata.name }, { type: 'json', body });
  const hasTtl = spec.versions[0]?.schema?.openAPIV3Schema?.properties?.spec?.properties?.ttlSecondsAfterFinished;
  await eventually('the CustomResourceDefinition is served', async () => {
    const trial = customManifest({ name: 'trial', namespace }, { message: 'one', ttlSecondsAfterFinished: 1 });
    const { spec } = await client.create(Echo, trial, { dryRun: true });
    return (spec.ttlSecondsAfterFinished !== undefined) === (hasTtl !== undefined);
  });
  await watched;
}

/**
 * An Echo that is created under the CustomResourceDefinition of the original, which has no status, and lives on under
 * ours. The definition is of the whole cluster, so only one run at a time is possible.
 */
export const originalCrdScenariosOn = (cluster: Pick<TestCluster, 'endPods'>): readonly Scenario[] => [
  {
    name: 'echo-original-crd',
    // How often the status is refused depends on when the API server follows the new definition.
    mayOmitWrites: true,
    changesDefinitions: true,
    kinds: [Echo, Job],
    addControllers: addDefined(echoController(podSettings)),
    steps: {
      create: async (world) => {
        await defineEcho(world, originalEchoCrd);
        await createdWithChild(Echo, { message: 'one' }, Job, world);
        await defineEcho(world, customResourceDefinition(Echo));
        await eventually('the status is written', async () => {
          const { status } = await world.client.get(Echo, { name, namespace: world.namespace });
          return status?.observedGeneration !== undefined;
        });
      },
      print: ({ namespace }) => cluster.endPods({ name, namespace }),
      delete: remove(Echo),
    },
  },
];
