import { eventually, type Scenario } from '@echoperator/testing';
import { readConfig } from '../../src/config.ts';
import { petController } from '../../src/kinds/pet/controller.ts';
import { Pet } from '../../src/kinds/pet/kind.ts';
import { customManifest } from '../../testkit/with-reason.ts';
import type { ExternalSystems } from '../integration/environment/external-systems.ts';
import { FencedSystem } from '../integration/environment/fenced-system.ts';
import type { KindPlans } from './kind-plans.ts';
import { fencedBy, name, settings, update } from './scenario-steps.ts';

const petOf = (namespace: string, call: string) =>
  customManifest({ name, namespace }, {
    name: `${call} of ${namespace}`,
    type: 'dog',
    birthday: '2020-01-31T00:00:00Z',
  } as const);

/** What all scenarios have in common. */
const petsOf = (
  external: ExternalSystems,
): Pick<Scenario, 'kinds' | 'external' | 'alwaysExternal' | 'addControllers'> => {
  const { petstore } = readConfig(external.settings);
  return {
    kinds: [Pet],
    external: (namespace) => external.petsNamedAfter(namespace),
    alwaysExternal: (found) => (found.length > 1 ? `${found.length} pets of one Pet` : undefined),
    addControllers: async (operator, namespace, hooks) => {
      const fenced = await FencedSystem.petStore(Number(petstore.address.split(':')[1]), hooks);
      const { namespaces, ...limits } = settings(namespace);
      const address = `127.0.0.1:${fenced.port}`;
      const controller = petController({
        address,
        tls: undefined,
        timeoutMs: petstore.timeoutSeconds * 1000,
        ...limits,
      });
      controller.add(fencedBy(hooks.gate, operator), { namespaces });
      return () => fenced.close();
    },
  };
};

const needsPetStore = 'a simulation has no pet store, and no sockets';

export const plans: KindPlans = {
  example: { name: 'Thor', type: 'dog', birthday: '2021-04-01T00:00:00Z' },
  subject: (external) => ({
    kind: Pet,
    children: [],
    spec: { name: 'Rex', type: 'dog', birthday: '2020-01-31T00:00:00Z' },
    values: {
      birthday: [
        '2021-02-28T23:30:00+14:00',
        '1900-01-01T00:00:00Z',
        '9999-12-31T23:59:59Z',
        '2021-02-30T00:00:00Z',
        'soon',
      ],
    },
    external: (namespace) => external.pets(namespace),
  }),
  externalScenarios: (external) => [
    {
      name: 'pet-in-creation',
      mayOmitWrites: true,
      ...petsOf(external),
      steps: {
        'create-delete': async ({ client, namespace }) => {
          await client.create(Pet, petOf(namespace, 'Rex'));
          await eventually('the pet exists', async () => (await external.petsNamedAfter(namespace)).length > 0);
          await client.delete(Pet, { name, namespace });
        },
      },
    },
    {
      name: 'pet',
      ...petsOf(external),
      steps: {
        create: ({ client, namespace }) => client.create(Pet, petOf(namespace, 'Rex')),
        rename: ({ client, namespace }) => client.apply(Pet, petOf(namespace, 'Max'), { force: true }),
        'pet-edited': async (world) => {
          await external.changePets(world.namespace, 'edited');
          await update(Pet, { ...petOf(world.namespace, 'Max').spec, type: 'cat' })(world);
        },
        'pet-deleted': async (world) => {
          await external.changePets(world.namespace, 'deleted');
          await update(Pet, { ...petOf(world.namespace, 'Max').spec, birthday: '2021-02-28T00:00:00Z' })(world);
        },
        delete: ({ client, namespace }) => client.delete(Pet, { name, namespace }),
      },
    },
  ],
  permissionPlans: ['pet/create'],
  bugs: [
    {
      name: 'Pet: the intent is not recorded',
      file: 'src/kinds/pet/pet-writer.ts',
      find: 'await context.writeStatus({ id: null, intent, ',
      replace: 'await context.writeStatus({ id: null, ',
      plans: { perturb: ['pet/create'] },
      notSimulated: needsPetStore,
    },
    {
      name: 'Pet: an intent is repeated with another request id',
      file: 'src/kinds/pet/pet-writer.ts',
      find: 'await store.add(intent, intent.requestId, linked)',
      replace: 'await store.add(intent, randomUUID(), linked)',
      plans: { perturb: ['pet/create'] },
      notSimulated: needsPetStore,
    },
    {
      name: 'Pet: an intent is not removed when it is settled',
      file: 'src/kinds/pet/pet-writer.ts',
      find: '(id) => writeStatus({ id, intent: null })',
      replace: '(id) => writeStatus({ id })',
      plans: { perturb: ['pet/create'] },
      notSimulated: needsPetStore,
    },
    {
      name: 'Pet: the deletion does not settle an intent',
      file: 'src/kinds/pet/pet-writer.ts',
      find: 'if (intent !== undefined) await this.#settle(intent, context, remove);',
      replace: '',
      plans: { perturb: ['pet-in-creation'] },
      notSimulated: needsPetStore,
    },
    {
      name: 'Pet: requests do not pass the fence',
      file: 'src/kinds/pet/connect-pet-store.ts',
      find: 'new PetStore({ address, tls, timeoutMs, gate, interceptors',
      replace: 'new PetStore({ address, tls, timeoutMs, interceptors',
      plans: { perturb: ['pet/create'] },
      notSimulated: needsPetStore,
    },
    {
      name: 'Pet: the pet is not deleted',
      file: 'src/kinds/pet/pet-writer.ts',
      find: '    await remove(id);\n',
      replace: '',
      plans: { perturb: ['pet/delete'] },
      notSimulated: needsPetStore,
    },
    {
      name: 'Pet: a new name is not sent to the store',
      file: 'src/kinds/pet/pet-writer.ts',
      find: 'if (deviation === undefined && isStored(context.object)) return undefined;',
      replace: 'if (deviation === undefined) return undefined;',
      plans: { mutate: ['Pet/name'] },
      notSimulated: needsPetStore,
    },
    {
      name: 'Pet: an update does not change the type',
      file: 'src/kinds/pet/pet-store.ts',
      find: 'pets: [{ id, ...wirePet(pet) }]',
      replace: "pets: [{ id, ...wirePet({ ...pet, type: 'dog' }) }]",
      plans: { mutate: ['Pet/type'] },
      notSimulated: needsPetStore,
    },
  ],
};
