import { defineKind, type KubeObject, withVersion } from '@echoperator/runtime';
import type { Client } from '@echoperator/runtime/client';
import { CustomResourceDefinition } from '@echoperator/runtime/kinds';
import { NotSimulatedError, simulate } from '@echoperator/testing/simulation';
import { describe, expect, test } from '@jest/globals';
import * as Type from 'typebox';
import { migrateStoredObjects } from '../../../../packages/cli/src/migrate/migrate-stored-objects.ts';
import { convert } from '../../../../packages/runtime/src/conversion/versions.ts';

const names = { group: 'example.com', kind: 'Parcel', plural: 'parcels', description: 'A parcel.' };
const status = Type.Object({});
const V1 = defineKind({ ...names, version: 'v1', spec: Type.Object({ who: Type.String() }), status });
const V2 = defineKind({
  ...names,
  version: 'v2',
  spec: Type.Object({ name: Type.String(), size: Type.Optional(Type.Integer()) }),
  status,
});
const Parcel = withVersion(V1, V2, {
  conversion: {
    toStored: ({ spec: { name } }) => ({ spec: { who: name } }),
    fromStored: ({ spec: { who } }) => ({ spec: { name: who } }),
  },
});
const definition = { name: 'parcels.example.com' };
const parcel = (name: string) => ({ metadata: { namespace: 'default', name }, spec: { who: name } });
const keyOf = (name: string) => ({ namespace: 'default', name });

/** Makes this version the stored one. */
async function store(client: Client, version: string): Promise<void> {
  const { spec } = await client.get(CustomResourceDefinition, definition);
  const versions = spec.versions.map((each) => ({ ...each, storage: each.name === version }));
  await client.patch(CustomResourceDefinition, definition, { type: 'merge', body: { spec: { versions } } });
}

const storedVersions = async (client: Client) =>
  (await client.get(CustomResourceDefinition, definition)).status?.storedVersions;

/** The versions in which the objects are stored: those from which a list converts, or its own. */
async function versionsOfObjects(client: Client, converted: Set<string>): Promise<ReadonlySet<string>> {
  converted.clear();
  const { items } = await client.list(V2, {});
  const others = converted.size;
  await client.list(V1, {});
  return new Set([...(others > 0 ? ['v1'] : []), ...(items.length > 0 && converted.has('v2') ? ['v2'] : [])]);
}

/** Simulates the kind, and records from which versions objects are converted. */
function simulateParcels<R>(run: (client: Client, converted: Set<string>) => Promise<R>): Promise<R> {
  const converted = new Set<string>();
  const options = {
    kinds: [Parcel],
    convert: (object: KubeObject, apiVersion: string) => {
      converted.add(object.apiVersion?.split('/')[1] ?? '');
      return convert(Parcel, object, apiVersion);
    },
  };
  return simulate(options, ({ client }) => run(client, converted));
}

describe('several versions of a kind', () => {
  test('a write stores an object in the stored version, even if nothing else changes', () =>
    simulateParcels(async (client, converted) => {
      await client.create(V1, parcel('a'));
      expect(await client.get(V2, keyOf('a'))).toMatchObject({ apiVersion: 'example.com/v2', spec: { name: 'a' } });
      const patch = () => client.patch(V2, keyOf('a'), { type: 'merge', body: {} });
      const before = (await patch()).metadata.resourceVersion;
      expect(before).toBe((await client.get(V1, keyOf('a'))).metadata.resourceVersion);
      await store(client, 'v2');
      expect(await storedVersions(client)).toEqual(['v1', 'v2']);
      expect(await versionsOfObjects(client, converted)).toEqual(new Set(['v1']));
      const after = (await patch()).metadata.resourceVersion;
      expect(after).not.toBe(before);
      expect((await patch()).metadata.resourceVersion).toBe(after);
      expect(await versionsOfObjects(client, converted)).toEqual(new Set(['v2']));
    }));

  test('fields keep the manager and the version in which they were set, until they change in any version', () =>
    simulateParcels(async (client) => {
      await client.create(V1, parcel('a'));
      const managers = async () => {
        const { metadata } = (await client.get(V2, keyOf('a'))) as { metadata: { managedFields?: readonly object[] } };
        return metadata.managedFields;
      };
      await client.patch(V2, keyOf('a'), { type: 'merge', body: { metadata: { labels: { l: '1' } } } });
      expect(await managers()).toMatchObject([
        { apiVersion: 'example.com/v1', fieldsV1: { 'f:spec': { 'f:who': {} } } },
        { apiVersion: 'example.com/v2', fieldsV1: { 'f:metadata': {} } },
      ]);
      const applied = { ...parcel('a'), spec: { name: 'b' } };
      const other = { fieldManager: 'other' };
      await expect(client.apply(V2, applied, other)).rejects.toThrow('conflict with "user" using example.com/v1');
      await client.apply(V2, applied, { ...other, force: true });
      expect(JSON.stringify(await managers())).not.toContain('f:who');
    }));

  test('an object that cannot be converted fails its reads in other versions', () =>
    simulate(
      {
        kinds: [Parcel],
        convert: () => {
          throw new RangeError('no');
        },
      },
      async ({ client }) => {
        await client.create(V1, parcel('a'));
        await expect(client.list(V2, {})).rejects.toThrow(
          'conversion webhook for example.com/v1, Kind=Parcel failed: no',
        );
        expect((await client.list(V1, {})).items).toHaveLength(1);
      },
    ));

  test('only the stored version of a definition and its list may change', () =>
    simulateParcels(async (client) => {
      const body = { spec: { versions: [] } };
      const change = client.patch(CustomResourceDefinition, definition, { type: 'merge', body });
      await expect(change).rejects.toThrow(NotSimulatedError);
      const { resourceVersion } = (await client.get(CustomResourceDefinition, definition)).metadata;
      const shrink = client.mergeStatus(
        CustomResourceDefinition,
        { ...definition, resourceVersion },
        { storedVersions: ['v2'] },
      );
      await expect(shrink).rejects.toThrow(NotSimulatedError);
    }));
});

/** What another client may do while objects are migrated. */
const others: Readonly<Record<string, (client: Client) => Promise<unknown>>> = {
  nothing: async () => {},
  'edits in v1': (client) => client.patch(V1, keyOf('b'), { type: 'merge', body: { spec: { who: 'edited' } } }),
  'edits in v2': (client) => client.patch(V2, keyOf('b'), { type: 'merge', body: { spec: { name: 'edited' } } }),
  creates: (client) => client.create(V1, parcel('d')),
  deletes: (client) => client.delete(V1, keyOf('b')),
  replaces: async (client) => {
    await client.delete(V1, keyOf('b'));
    await client.create(V1, parcel('b'));
  },
  'stores v1 again': (client) => store(client, 'v1'),
  'stores v1, creates, stores v2': async (client) => {
    await store(client, 'v1');
    await client.create(V1, parcel('d'));
    await store(client, 'v2');
  },
};

/** How the command ends at a request. */
const ends = ['not at all', 'before it is sent', 'after its response'] as const;

/** Runs the migration until it succeeds. The first run ends at a request, and then another client acts, or before. */
async function migrateWith(act: (client: Client) => Promise<unknown>, at: number, end: (typeof ends)[number]) {
  return simulateParcels(async (client, converted) => {
    for (const name of ['a', 'b', 'c']) await client.create(V1, parcel(name));
    await store(client, 'v2');
    let requests = 0;
    const checked = async () => {
      const versions = await versionsOfObjects(client, converted);
      const listed = (await storedVersions(client)) ?? [];
      for (const version of versions) expect(listed).toContain(version);
    };
    const observed = client.scoped({
      signal: new AbortController().signal,
      hook: async (_, send) => {
        requests += 1;
        if (requests !== at) return send().finally(checked);
        await act(client);
        if (end === 'before it is sent') throw new Error('killed');
        const response = await send();
        await checked();
        if (end === 'after its response') throw new Error('killed');
        return response;
      },
    });
    const options = { perSecond: Number.POSITIVE_INFINITY, settleMs: 0, report: () => {} };
    let runs = 0;
    for (let isMigrated = false; !isMigrated && runs < 4; ) {
      runs += 1;
      isMigrated = await migrateStoredObjects(observed, definition.name, options).then(
        () => true,
        () => false,
      );
      await checked();
    }
    const { spec, status: { storedVersions: listed = [] } = {} } = await client.get(
      CustomResourceDefinition,
      definition,
    );
    const stored = spec.versions.find(({ storage }) => storage)?.name;
    // The change may come after the last write, when the command has already succeeded.
    if (requests > at) expect(listed).toEqual([stored]);
    return { requests, runs };
  });
}

describe('a migration of stored objects', () => {
  test.each(Object.keys(others))('is safe at each request, killed or not, if another client %s', async (name) => {
    const act = others[name]!;
    const undisturbed = await migrateWith(async () => {}, 0, 'not at all');
    // Two reads of the definition, a list, three objects, and the status.
    expect(undisturbed).toEqual({ requests: 7, runs: 1 });
    for (let at = 1; at <= undisturbed.requests; at += 1)
      for (const end of ends) {
        const { runs } = await migrateWith(act, at, end);
        expect({ at, end, runs }).toEqual({ at, end, runs: expect.any(Number) });
        expect(runs).toBeLessThan(4);
      }
  });
});
