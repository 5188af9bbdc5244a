/** What the scenarios of several kinds have in common. */

import {
  type CustomKind,
  isControlledBy,
  type Kind,
  type KubeObject,
  type Manifest,
  type Operator,
} from '@echoperator/runtime';
import { type Gate, isNotFound } from '@echoperator/runtime/client';
import type { ControllerHost, DefinedController } from '@echoperator/runtime/controller';
import { eventually, type Scenario, type ScenarioWorld } from '@echoperator/testing';
import { caches } from '../../src/operator.ts';

/** The name of the object in each scenario. */
export const name = 'hello';

export const settings = (namespace: string) => ({ workers: 2, resyncEveryMs: 600_000, namespaces: [namespace] });

export const addDefined =
  (controller: DefinedController): Scenario['addControllers'] =>
  (operator, namespace) => {
    controller.add(operator, { ...settings(namespace), caches });
  };

/** The operator, whose calls to other systems pass this gate. */
export const fencedBy = (fence: Gate, { manager, applier, events, metrics }: Operator): ControllerHost => ({
  manager,
  applier,
  events,
  metrics,
  elector: { fence },
});

export const create =
  (kind: CustomKind, spec: object) =>
  ({ client, namespace }: ScenarioWorld) =>
    client.create<KubeObject>(kind, { metadata: { name, namespace }, spec } as Manifest<KubeObject>);

export const update =
  (kind: CustomKind, spec: object) =>
  ({ client, namespace }: ScenarioWorld) =>
    client.apply<KubeObject>(kind, { metadata: { name, namespace }, spec } as Manifest<KubeObject>, { force: true });

export const remove =
  (kind: Kind) =>
  ({ client, namespace }: ScenarioWorld) =>
    client.delete(kind, { name, namespace });

export const untilGone = (kind: Kind, { client, namespace }: ScenarioWorld): Promise<boolean> =>
  eventually(`the ${kind.kind} is gone`, () => client.get(kind, { name, namespace }).then(() => false, isNotFound));

/** Creates, updates and deletes at once. An operator that watches only from time to time never sees the object. */
export const createUpdateDelete = (kind: CustomKind, specs: readonly object[]) => async (world: ScenarioWorld) => {
  const [first = {}, ...others] = specs;
  await create(kind, first)(world);
  for (const spec of others) await update(kind, spec)(world);
  await remove(kind)(world);
  await untilGone(kind, world);
};

/** Creates the object, waits until it has a child, and returns the child's metadata. */
export const createdWithChild = async <T extends KubeObject>(
  kind: CustomKind,
  spec: object,
  child: Kind<T>,
  world: ScenarioWorld,
) => {
  const owner = await create(kind, spec)(world);
  return eventually(`the ${kind.kind} has a ${child.kind}`, async () => {
    const { items } = await world.client.list(child, { namespace: world.namespace });
    return items.find((item) => isControlledBy(item, owner))?.metadata;
  });
};

/** An object that was changed must be as a new one of the same spec. */
export const anew = (
  scenario: string,
  controller: Pick<Scenario, 'kinds' | 'addControllers' | 'canonicalName' | 'always' | 'mayDiffer'>,
  kind: CustomKind,
  specs: readonly [first: object, last: object],
): Scenario => ({
  ...controller,
  name: `${scenario}-anew`,
  restores: { 'created-anew': 'changed' },
  // The generation of the spec.
  mayDiffer: (path) => path.endsWith('/generation') || controller.mayDiffer?.(path) === true,
  steps: {
    // Not a creation, whose fields a later apply would keep.
    create: update(kind, specs[0]),
    changed: update(kind, specs[1]),
    'deleted-first': remove(kind),
    'created-anew': update(kind, specs[1]),
    delete: remove(kind),
  },
});

/** The spec of a Job or of a CronJob's Jobs that no controller of ours has made. */
export const someJob = {
  template: { spec: { restartPolicy: 'Never', containers: [{ name: 'own', image: 'example.com/own' }] } },
};
