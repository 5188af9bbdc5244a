import { controllerOf, isControlledBy } from '@echoperator/runtime';
import { Pod } from '@echoperator/runtime/kinds';
import { eventually, type Scenario, type ScenarioWorld } from '@echoperator/testing';
import { podSetController } from '../../src/kinds/pod-set/controller.ts';
import { PodSet } from '../../src/kinds/pod-set/kind.ts';
import { podSettings } from '../../testkit/pod-settings.ts';
import { customManifest } from '../../testkit/with-reason.ts';
import type { KindPlans } from './kind-plans.ts';
import {
  addDefined,
  anew,
  create,
  createdWithChild,
  createUpdateDelete,
  name,
  remove,
  update,
} from './scenario-steps.ts';
import { longKey } from './values.ts';

const addPodSets = addDefined(podSetController(podSettings));

/** A PodSet never has more pods than it asks for. Those that a larger number has left may not become more. */
const neverMoreThanAsked: Scenario['always'] = () => {
  let last = 0;
  return (objects) => {
    const set = objects.find(({ kind }) => kind === PodSet.kind)?.object as PodSet | undefined;
    // The garbage collector deletes the pods of a PodSet that is gone.
    if (set === undefined) return undefined;
    const isLive = ({ kind, object }: (typeof objects)[number]): boolean =>
      kind === Pod.kind && isControlledBy(object, set) && object.metadata.deletionTimestamp === undefined;
    const before = last;
    last = objects.filter(isLive).length;
    return last > Math.max(set.spec.replicas, before) ? `${last} pods, ${set.spec.replicas} are asked for` : undefined;
  };
};

/** Pods have random names. */
const canonicalPodName = (pod: string): string => pod.replace(/-pod-\w+$/, '-pod-*');

const isPodReady = ({ status }: Pod): boolean => status?.conditions?.some(({ type }) => type === 'Ready') === true;

/** Plays the kubelet. Returns the pods. */
async function runPods({ client, namespace }: ScenarioWorld): Promise<readonly Pod[]> {
  // Not a pod that took the place of another and belongs to nobody.
  const pods = (await client.list(Pod, { namespace })).items.filter((pod) => controllerOf(pod) !== undefined);
  const lastTransitionTime = new Date().toISOString();
  for (const { metadata } of pods.filter((pod) => !isPodReady(pod))) {
    const conditions = [{ type: 'Ready', status: 'True', lastTransitionTime }];
    await client.mergeStatus(Pod, metadata, { phase: 'Running', conditions });
  }
  return pods;
}

/** Plays the kubelet, until so many pods are ready, and all of the image. */
async function untilPodsReady(
  world: ScenarioWorld,
  wanted: { readonly count: number; readonly image?: string },
): Promise<void> {
  const isWanted = ({ spec }: Pod): boolean =>
    wanted.image === undefined || spec?.containers[0]?.image === wanted.image;
  await eventually('the pods are ready', async () => {
    const pods = await runPods(world);
    return pods.length === wanted.count && pods.every((pod) => isPodReady(pod) && isWanted(pod));
  });
}

/** Nobody runs the pods, so after a minute the message names one that does not start. */
const mayDiffer = (path: string): boolean => /^PodSet .*\.conditions\.\d+\.message$/.test(path);

export const plans: KindPlans = {
  example: { replicas: 0, template: { spec: { containers: [{ name: 'a', image: 'x:1', args: ['a'] }] } } },
  subject: () => ({
    kind: PodSet,
    children: [Pod],
    followedWhileRefused: ['replicas'],
    spec: { replicas: 2 },
    canonicalName: (name) => name.replace(/-pod-[a-z0-9]{5}\b/g, '-pod-*'),
    values: {
      replicas: [3, 0, 1, -1, 5001, '2'],
      template: [
        { spec: { containers: [{ name: 'a', image: 'example.com/a' }] } },
        {},
        { metadata: { labels: { tier: 'web' } } },
        { spec: { containers: [] } },
        'a text',
      ],
      'template.metadata.labels': [
        { tier: 'web' },
        { tier: 'no value / 世界' },
        {},
        { app: 'other' },
        { version: '2' },
        { 'app.example.com/template-hash': 'x' },
        { [longKey]: 'x' },
        'a text',
      ],
      'template.spec': [
        { containers: [{ name: 'a', image: 'example.com/a' }] },
        { containers: [{ name: 'a', image: 'example.com/b' }], terminationGracePeriodSeconds: 1 },
        { containers: [{ name: 'Upper', image: 'example.com/a' }] },
        { containers: [{ name: 'a', image: 'example.com/a' }], nosuchfield: true },
        {},
      ],
    },
  }),
  simulatedScenarios: [
    anew(
      'pod-set',
      {
        kinds: [PodSet, Pod],
        addControllers: addPodSets,
        canonicalName: canonicalPodName,
        always: neverMoreThanAsked,
        mayDiffer,
      },
      PodSet,
      [{ replicas: 3 }, { replicas: 1, template: { spec: { containers: [{ name: 'sleeper', image: 'sleeper:2' }] } } }],
    ),
  ],
  scenarios: () => [
    {
      name: 'pod-set-in-motion',
      mayOmitWrites: true,
      kinds: [PodSet, Pod],
      canonicalName: canonicalPodName,
      mayDiffer,
      always: neverMoreThanAsked,
      addControllers: addPodSets,
      steps: {
        'create-update-delete': async (world) => {
          // A smaller number would make the operator delete only the pods that exist yet.
          await createUpdateDelete(PodSet, [{ replicas: 1 }, { replicas: 2 }])(world);
          await createdWithChild(PodSet, { replicas: 2 }, Pod, world);
          await update(PodSet, { replicas: 3 })(world);
          await remove(PodSet)(world);
        },
      },
    },
    {
      name: 'pod-set-roll',
      perturbedSteps: ['roll'],
      // How often the status changes depends on when pods become ready.
      mayOmitWrites: true,
      kinds: [PodSet, Pod],
      canonicalName: canonicalPodName,
      always: neverMoreThanAsked,
      meanwhile: runPods,
      addControllers: addPodSets,
      steps: {
        create: async (world) => {
          await create(PodSet, { replicas: 2 })(world);
          await untilPodsReady(world, { count: 2 });
        },
        roll: async (world) => {
          const template = { spec: { containers: [{ name: 'sleeper', image: 'sleeper:2' }] } };
          await update(PodSet, { replicas: 2, template })(world);
          await untilPodsReady(world, { count: 2, image: 'sleeper:2' });
        },
        delete: remove(PodSet),
      },
    },
    {
      name: 'pod-set',
      kinds: [PodSet, Pod],
      restores: { 'pod-deleted': 'grow', 'pod-orphaned': 'grow' },
      canonicalName: canonicalPodName,
      mayDiffer,
      always: neverMoreThanAsked,
      addControllers: addPodSets,
      steps: {
        create: ({ client, namespace }) => client.create(PodSet, customManifest({ name, namespace }, { replicas: 2 })),
        grow: ({ client, namespace }) =>
          client.apply(PodSet, customManifest({ name, namespace }, { replicas: 3 }), { force: true }),
        'pod-deleted': async ({ client, namespace }) => {
          const [first] = (await client.list(Pod, { namespace })).items;
          if (first !== undefined) await client.delete(Pod, first.metadata);
        },
        // A reference that is not the controller's remains, as a tool may leave it.
        'pod-orphaned': async ({ client, namespace }) => {
          const [first] = (await client.list(Pod, { namespace })).items;
          const [owner] = first?.metadata.ownerReferences ?? [];
          if (first === undefined || owner === undefined) return;
          const { name, uid, apiVersion, kind } = owner;
          const body = { metadata: { ownerReferences: [{ name, uid, apiVersion, kind }] } };
          await client.patch(Pod, first.metadata, { type: 'merge', body });
        },
        shrink: ({ client, namespace }) =>
          client.apply(PodSet, customManifest({ name, namespace }, { replicas: 1 }), { force: true }),
        delete: ({ client, namespace }) => client.delete(PodSet, { name, namespace }),
      },
    },
  ],
  permissionPlans: ['pod-set/grow', 'pod-set/pod-orphaned'],
  bugs: [
    {
      name: 'PodSet: one surplus pod stays',
      file: 'src/kinds/pod-set/scaling.ts',
      find: 'Math.max(0, -missing)',
      replace: 'Math.max(0, -missing - 1)',
      plans: { mutate: ['PodSet/replicas'], explore: ['pod-set-anew'] },
    },
    {
      name: 'PodSet: a new template does not replace the pods',
      file: 'src/kinds/pod-set/pod.ts',
      find: 'if (template === undefined) return defaultTemplateHash;',
      replace: 'if (template !== null) return defaultTemplateHash;',
      plans: { mutate: ['PodSet/template.spec'], explore: ['pod-set-anew'] },
    },
    {
      name: 'PodSet: a deleted pod is not noticed',
      file: 'src/kinds/pod-set/controller.ts',
      find: 'deletes: true, adopts: true }],',
      replace: 'deletes: true, adopts: true, predicate: () => false }],',
      plans: { perturb: ['pod-set/pod-deleted write 1 unsent'], explore: ['pod-set'] },
    },
    {
      name: 'PodSet: a creation without a response is repeated under another name',
      file: 'src/kinds/pod-set/scaling.ts',
      find: `    this.#reuseLater(names);
    const end`,
      replace: '    const end',
      plans: { tests: ['kinds/pod-set/pod-set.test'] },
    },
    {
      name: 'PodSet: a deletion that failed comes first again',
      file: 'src/kinds/pod-set/scaling.ts',
      find: 'const rankOf = ({ metadata }: Pod): number => ranks.get(metadata.uid) ?? -1;',
      replace: 'const rankOf = ({ metadata }: Pod): number => (ranks.has(metadata.uid) ? 0 : 0);',
      plans: { tests: ['kinds/pod-set/pod-set.test'] },
    },
    {
      name: 'PodSet: a deletion without a response is forgotten if a retry does not repeat it',
      file: 'src/kinds/pod-set/scaling.ts',
      find: 'isUnansweredError(failed.get(pod)) : !deleted.has(pod) && this.#isUnanswered(pod),',
      replace: 'isUnansweredError(failed.get(pod)) : false,',
      plans: { tests: ['kinds/pod-set/pod-set.test'] },
    },
    {
      name: 'PodSet: a rollout does not wait until new pods are ready',
      file: 'src/kinds/pod-set/removal.ts',
      find: `  if (active.some((pod) => !isOutdated(pod, hash) && !isReady(pod))) return undefined;
`,
      replace: '',
      plans: { tests: ['kinds/pod-set/pod-set.test'] },
    },
    {
      name: 'PodSet: a webhook without dry runs prevents a rollout',
      file: 'src/kinds/pod-set/scaling.ts',
      find: 'if (isQuotaExceeded(error) || isDryRunUnsupported(error)) return true;',
      replace: 'if (isQuotaExceeded(error)) return true;',
      plans: { tests: ['kinds/pod-set/pod-set.test'] },
    },
    {
      name: 'PodSet: ended pods stay without a limit',
      file: 'src/kinds/pod-set/removal.ts',
      find: 'const keptEnded = 5;',
      replace: 'const keptEnded = 500;',
      plans: { tests: ['kinds/pod-set/pod-set.test'] },
    },
    {
      name: 'PodSet: pods that end early are replaced without a pause',
      file: 'src/kinds/pod-set/removal.ts',
      find: 'const pausesMs = [0, 10_000, 40_000, 160_000, 300_000];',
      replace: 'const pausesMs = [0, 0, 0, 0, 0];',
      plans: { tests: ['kinds/pod-set/pod-set.test'] },
    },
  ],
};
