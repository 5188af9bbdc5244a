import { addLeaves, type Facts, factsOf, type ListedObject } from '../facts.ts';
import type { ObservedVersion } from './operator.ts';
import type { Scenario, ScenarioWorld } from './scenario.ts';

/**
 * Returns what there is, in the cluster and outside of it.
 *
 * @param observed the versions of the objects in the operator's caches, by uid
 * @throws Error if the operator has not yet received the last change of an object
 */
export async function stateOf(
  scenario: Scenario,
  world: ScenarioWorld,
  observed: ReadonlyMap<string, ObservedVersion>,
): Promise<Facts> {
  const { namespace } = world;
  const objects = await list(scenario, world);
  checkObserved(objects, observed);
  const canonicalName = (name: string): string => canonicalNameIn(scenario, name);
  const facts = new Map(factsOf(objects, { namespace, canonicalName, omitted: ['managedFields', 'resourceVersion'] }));
  const external = (await scenario.external?.(namespace)) ?? [];
  for (const [index, each] of external.entries()) addLeaves(facts, `external ${index + 1}`, each);
  const { mayDiffer = () => false } = scenario;
  return new Map([...facts].filter(([path]) => !mayDiffer(path)));
}

export const canonicalNameIn = (scenario: Scenario, name: string): string => scenario.canonicalName?.(name) ?? name;

async function list({ kinds }: Scenario, { client, namespace }: ScenarioWorld): Promise<readonly ListedObject[]> {
  const lists = await Promise.all(
    kinds.map(async (kind) => ({ kind: kind.kind, items: (await client.list(kind, { namespace })).items })),
  );
  return lists.flatMap(({ kind, items }) => items.map((object) => ({ kind, object })));
}

function checkObserved(objects: readonly ListedObject[], observed: ReadonlyMap<string, ObservedVersion>): void {
  const versions = new Map(objects.map(({ object: { metadata } }) => [metadata.uid, metadata.resourceVersion]));
  const late = [...versions].find(([uid, version]) => observed.get(uid)?.resourceVersion !== version)?.[0];
  const deleted = [...observed].find(([uid, { isListed }]) => isListed && !versions.has(uid))?.[0];
  if (late === undefined && deleted === undefined) return;
  const unseen = objects.find(({ object }) => object.metadata.uid === late)?.object.metadata.name;
  throw new Error(`the operator has not received the last change of ${unseen ?? 'a deleted object'}`);
}
