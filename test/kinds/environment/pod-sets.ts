import type { V1Pod } from '@kubernetes/client-node';
import type { PodSet } from '../../../src/kinds/pod-set/kind.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { cluster, namespace as newNamespace } from './cluster.ts';

/** The PodSets of one namespace at a time. */

export let ns: string;

/** Makes the namespace that the functions below use. */
export async function namespace(): Promise<string> {
  ns = await newNamespace();
  return ns;
}

export const podSet = (name: string, spec: object): object => ({
  apiVersion: 'app.example.com/v1alpha1',
  kind: 'PodSet',
  metadata: { name, namespace: ns },
  spec,
});

export const kubectl = (...args: readonly string[]) => cluster.kubectl([...args, '--namespace', ns]);

export const scale = (name: string, replicas: number) => kubectl('scale', `podset/${name}`, `--replicas=${replicas}`);

/** Waits until the PodSet tells of so many ready pods, and no others. Returns it. */
export function settled(name: string, replicas: number): Promise<PodSet> {
  return eventually(
    `${name} has ${replicas}`,
    async () => {
      const found = await cluster.get<PodSet>(`podset/${name}`, '--namespace', ns);
      const { status, metadata } = found;
      const isSettled =
        status?.observedGeneration === metadata.generation &&
        status?.replicas === replicas &&
        status.readyReplicas === replicas &&
        status.podNames?.length === replicas;
      return isSettled && found;
    },
    120_000,
  );
}

export async function pods(): Promise<readonly V1Pod[]> {
  return (await cluster.get<{ items: V1Pod[] }>('pods', '--namespace', ns)).items;
}

/** Of the pods that are not on their way out. */
export const names = (all: readonly V1Pod[]): readonly string[] =>
  all
    .filter(({ metadata }) => metadata?.deletionTimestamp === undefined)
    .map(({ metadata }) => metadata?.name ?? '')
    .sort();
