import { controllerReference, isControlledBy, type KubeObject } from '@echoperator/runtime';
import { Deployment, PersistentVolumeClaim, Pod, StatefulSet } from '@echoperator/runtime/kinds';
import type { Simulation, SimulationStep } from '@echoperator/testing/simulation';

const readyStatus = {
  phase: 'Running',
  conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: '2030-01-01T00:00:00Z' }],
};

/**
 * Plays the controllers of Deployments and StatefulSets, the kubelet, and the provisioner of volumes. Pods of a
 * StatefulSet are ready at once and are replaced if their image differs. A Deployment has no pods, only a status.
 * Claims are bound, and never grow by themselves.
 */
export class PlayedWorkloads {
  /** What does not happen for now. */
  isStopped = false;

  readonly steps = (simulation: Simulation): readonly SimulationStep[] => {
    if (this.isStopped) return [];
    const steps: SimulationStep[] = [];
    const { client } = simulation;
    const all = { pods: simulation.objects(Pod), claims: simulation.objects(PersistentVolumeClaim) };
    const setStatus = (kind: typeof Deployment | typeof StatefulSet, object: Deployment | StatefulSet) => {
      const { metadata, spec, status } = object;
      const count = spec?.replicas ?? 1;
      if (status?.observedGeneration === metadata.generation && (status?.replicas ?? 0) === count) return;
      const counts = { replicas: count, updatedReplicas: count, availableReplicas: count, readyReplicas: count };
      const body = { status: { ...counts, observedGeneration: metadata.generation } };
      steps.push({
        description: `controller: reports ${kind.kind} ${metadata.name}`,
        run: () => patchStatus(simulation, kind, object, body),
      });
    };
    for (const deployment of simulation.objects(Deployment)) setStatus(Deployment, deployment);
    for (const set of simulation.objects(StatefulSet)) {
      if (set.metadata.deletionTimestamp !== undefined) continue;
      setStatus(StatefulSet, set);
      const own = all.pods.filter((pod) => isControlledBy(pod, set));
      for (const pod of own.filter(
        ({ metadata }) => Number(metadata.name.split('-').at(-1)) >= (set.spec?.replicas ?? 1),
      ))
        steps.push(remove(simulation, Pod, pod));
      for (let ordinal = 0; ordinal < (set.spec?.replicas ?? 1); ordinal += 1)
        steps.push(...podSteps(simulation, set, ordinal, all));
    }
    for (const claim of all.claims) {
      const { name, deletionTimestamp, finalizers = [] } = claim.metadata;
      const isUsed = all.pods.some(({ spec }) =>
        spec?.volumes?.some((volume) => volume.persistentVolumeClaim?.claimName === name),
      );
      if (deletionTimestamp === undefined || isUsed || !finalizers.includes('kubernetes.io/pvc-protection')) continue;
      const others = finalizers.filter((each) => each !== 'kubernetes.io/pvc-protection');
      const body = { metadata: { finalizers: others.length === 0 ? null : others } };
      steps.push({
        description: `releases claim ${name}`,
        run: async () => void (await client.patch(PersistentVolumeClaim, claim.metadata, { type: 'merge', body })),
      });
    }
    return steps;
  };
}

async function patchStatus(
  simulation: Simulation,
  kind: object,
  { metadata }: KubeObject,
  body: object,
): Promise<void> {
  const { namespace = '', name } = metadata;
  await simulation.client.patch(
    kind as typeof Pod,
    { namespace, name },
    { type: 'merge', body },
    { subresource: 'status' },
  );
}

const remove = (simulation: Simulation, kind: typeof Pod, { metadata }: Pod): SimulationStep => ({
  description: `controller: deletes ${kind.kind} ${metadata.name}`,
  run: () => simulation.client.delete(kind, metadata).then(() => {}),
});

/** What the StatefulSet's controller does next about the pod with this number and its claim. */
function podSteps(
  simulation: Simulation,
  set: StatefulSet,
  ordinal: number,
  { pods, claims }: { readonly pods: readonly Pod[]; readonly claims: readonly PersistentVolumeClaim[] },
): readonly SimulationStep[] {
  const { namespace = '', name: setName } = set.metadata;
  const { client } = simulation;
  const name = `${setName}-${ordinal}`;
  const claimName = `data-${name}`;
  const [template] = set.spec?.volumeClaimTemplates ?? [];
  if (template !== undefined && !claims.some(({ metadata }) => metadata.name === claimName)) {
    const { labels } = template.metadata ?? {};
    const metadata = { namespace, name: claimName, labels: { ...labels, ...set.spec?.selector.matchLabels } };
    return [
      {
        description: `StatefulSet controller: creates claim ${claimName}`,
        run: async () => {
          const claim = await client.create(PersistentVolumeClaim, {
            metadata,
            spec: template.spec as PersistentVolumeClaim['spec'] & object,
          });
          await bind(simulation, claim);
        },
      },
    ];
  }
  const pod = pods.find(({ metadata }) => metadata.name === name);
  const image = set.spec?.template.spec?.containers[0]?.image;
  if (pod === undefined) {
    const ownerReferences = [controllerReference(StatefulSet, set)];
    const volumes = [{ name: 'data', persistentVolumeClaim: { claimName } }];
    const { labels = {} } = set.spec?.template.metadata ?? {};
    return [
      {
        description: `StatefulSet controller: creates pod ${name}`,
        run: async () => {
          const spec = { ...set.spec?.template.spec, volumes } as Pod['spec'] & object;
          const created = await client.create(Pod, { metadata: { namespace, name, labels, ownerReferences }, spec });
          await patchStatus(simulation, Pod, created, { status: readyStatus });
        },
      },
    ];
  }
  const isOutdated = pod.metadata.deletionTimestamp === undefined && pod.spec?.containers[0]?.image !== image;
  return isOutdated ? [remove(simulation, Pod, pod)] : [];
}

/** Plays the provisioner: gives a claim a volume of the size that it requests. */
export async function bind(simulation: Simulation, claim: PersistentVolumeClaim): Promise<void> {
  const storage = claim.spec?.resources?.requests?.storage ?? '';
  await patchStatus(simulation, PersistentVolumeClaim, claim, { status: { phase: 'Bound', capacity: { storage } } });
}
