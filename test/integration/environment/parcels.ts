import { customResourceDefinition, defineKind, withVersion } from '@echoperator/runtime';
import { CustomResourceDefinition, Secret } from '@echoperator/runtime/kinds';
import * as Type from 'typebox';
import { forEachConcurrently } from '../../../packages/testing/src/for-each-concurrently.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { freePorts } from '../../../testkit/free-ports.ts';
import type { TestCluster } from '../../../testkit/test-cluster.ts';
import { runWebhooks } from './running-webhooks.ts';

const names = { group: 'migrate.test', kind: 'Parcel', plural: 'parcels', description: 'A parcel.' };
const status = Type.Object({});
export const V1 = defineKind({ ...names, version: 'v1', spec: Type.Object({ who: Type.String() }), status });
export const V2 = defineKind({
  ...names,
  version: 'v2',
  spec: Type.Object({ name: Type.String(), size: Type.Optional(Type.Integer()) }),
  status,
});

/** The `who` that cannot be converted. */
export const inconvertible = new Set<string>();
const Parcel = withVersion(V2, V1, {
  conversion: {
    toStored: ({ spec: { who } }) => {
      if (inconvertible.has(who)) throw new RangeError(`nobody is called ${who}`);
      return { spec: { name: who } };
    },
    fromStored: ({ spec: { name } }) => ({ spec: { who: name } }),
  },
});

export const parcels = { name: 'parcels.migrate.test' };

/** Objects that are stored in v1, of a definition that stores v2, with the webhook that converts them. */
export interface Parcels {
  readonly namespace: string;
  /** Applies the definition with this version as the stored one. */
  readonly store: (version: 'v1' | 'v2') => Promise<void>;
  readonly storedVersions: () => Promise<readonly string[] | undefined>;
  /** The resourceVersions by name. */
  readonly versions: () => Promise<ReadonlyMap<string, string>>;
  /** Throws unless all objects can be read without the webhook, which it stops. */
  readonly requireStoredInV2: () => Promise<void>;
}

/** @param cleanUp gets what deletes them, also if they are not created completely. */
export async function startParcels(
  cluster: TestCluster,
  cleanUp: (() => Promise<unknown>)[],
  count: number,
): Promise<Parcels> {
  const { client } = cluster;
  const namespace = await cluster.namespace();
  const [port] = await freePorts();
  const store = async (version: 'v1' | 'v2'): Promise<void> => {
    const conversionService = { namespace: 'parcels', name: 'parcels' };
    const { spec } = customResourceDefinition(Parcel, { conversionService });
    const conversion = {
      strategy: 'Webhook',
      webhook: { conversionReviewVersions: ['v1'], clientConfig: { url: `https://127.0.0.1:${port}/convert` } },
    };
    const all = spec.versions.map((each) => ({ ...each, storage: each.name === version }));
    const manifest = { metadata: parcels, spec: { ...spec, conversion, versions: all } };
    await client.apply(CustomResourceDefinition, manifest as never, { fieldManager: 'chart', force: true });
  };
  await store('v1');
  cleanUp.push(async () => {
    // The webhook has stopped, and the deletion lists objects of both versions.
    const conversion = { strategy: 'None', webhook: null };
    await client.patch(CustomResourceDefinition, parcels, { type: 'merge', body: { spec: { conversion } } });
    await client.delete(CustomResourceDefinition, parcels);
    await eventually(
      'the definition is gone',
      () => cluster.isGone(() => client.get(CustomResourceDefinition, parcels)),
      180_000,
    );
  });
  await client.create(Secret, { metadata: { name: 'parcel-operator-webhook-certificates', namespace } });
  const certificates = { propagationMs: 1000 };
  const options = { name: 'parcel-operator', kinds: [Parcel], namespace, port: port ?? 0, certificates };
  const webhooks = await runWebhooks(cluster, options, cleanUp);
  const probe = { metadata: { name: 'probe', namespace }, spec: { name: 'probe' } };
  await eventually('the API server converts', () =>
    client.create(V2, probe, { dryRun: true }).then(
      () => true,
      () => false,
    ),
  );
  await forEachConcurrently(Array(count).keys(), (index) =>
    client.create(V1, { metadata: { name: `parcel-${index}`, namespace }, spec: { who: `who-${index}` } }),
  );
  await store('v2');
  const first = { name: 'parcel-0', namespace };
  const { resourceVersion } = (await client.get(V1, first)).metadata;
  await eventually('the API server stores v2', async () => {
    const { metadata } = await client.patch(V1, first, { type: 'merge', body: {} });
    return metadata.resourceVersion !== resourceVersion;
  });
  const versions = async () => {
    const { items } = await client.list(V2, { namespace });
    return new Map(items.map(({ metadata }) => [metadata.name, metadata.resourceVersion]));
  };
  // After the change of the definition it first converts all objects for its watch cache, and refuses lists meanwhile.
  await eventually(
    'the API server lists v2',
    () =>
      versions().then(
        ({ size }) => size === count,
        () => false,
      ),
    180_000,
  );
  return {
    namespace,
    store,
    storedVersions: async () => (await client.get(CustomResourceDefinition, parcels)).status?.storedVersions,
    versions,
    requireStoredInV2: async () => {
      const all = await versions();
      await webhooks.stop();
      await forEachConcurrently(all.keys(), (name) => client.get(V2, { name, namespace }));
    },
  };
}

/** How many objects of the first map the second one has with another version. */
export const changed = (before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): number =>
  [...before].filter(([name, version]) => after.has(name) && after.get(name) !== version).length;
