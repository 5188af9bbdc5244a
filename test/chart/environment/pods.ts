import { randomUUID } from 'node:crypto';
import type { Manifest } from '@echoperator/runtime';
import type { Pod } from '@echoperator/runtime/kinds';
import type { V1PodSpec } from '@kubernetes/client-node';
import { readConfig } from '../../../src/config.ts';
import { deploymentOf } from '../../../src/kinds/book-store/app.ts';
import { statefulSetOf } from '../../../src/kinds/book-store/database.ts';
import { specWithDefaultsOf } from '../../../src/kinds/book-store/desired.ts';
import { newPod } from '../../../src/kinds/pod-set/pod.ts';
import { printPod } from '../../../src/kinds/shared/print-pod.ts';
import { bookStorePodDefaults, podDefaults, printPodSettings } from '../../../src/operator.ts';
import type { Rendering } from '../rendering.ts';

type PodSpec = NonNullable<Pod['spec']>;

const metadata = {
  name: 'shop',
  namespace: 'default',
  uid: 'uid',
  resourceVersion: '1',
  generation: 1,
  creationTimestamp: '',
};

/**
 * The specs of all pods of a release by a name: those that the chart renders, and those that its operator then creates.
 */
export function allPodSpecs(rendering: Rendering): ReadonlyMap<string, PodSpec> {
  const config = readConfig(rendering.all('ConfigMap')[0]?.data ?? {});
  const defaults = podDefaults(config);
  const bookStore = {
    metadata,
    spec: { bookApp: { repository: 'akash125/pyapp' }, bookDB: { repository: 'mongo', dbSize: '2Gi' } },
  };
  const bookStoreDefaults = bookStorePodDefaults(config);
  const bookStoreSpec = specWithDefaultsOf(bookStore);
  const podSet = { metadata, spec: { replicas: 1 } };
  const ofChart = [...rendering.podSpecs()].map(([name, spec]) => [name, jsonOf(spec)] as const);
  const ofOperator = {
    Echo: printPod({ message: 'hello' }, printPodSettings(config)).spec,
    PodSet: newPod(podSet, 'default', 'shop-pod-0', { image: config.podSetImage, podDefaults: defaults }).spec,
    'app of a BookStore': deploymentOf(bookStore, bookStoreSpec, bookStoreDefaults).spec?.template.spec,
    'database of a BookStore': statefulSetOf(bookStore, bookStoreSpec, undefined, bookStoreDefaults).spec?.template
      .spec,
  };
  return new Map([...ofChart, ...Object.entries(ofOperator)].flatMap(([name, spec]) => (spec ? [[name, spec]] : [])));
}

/** The types of the client library have classes for dates, which JSON does not. */
const jsonOf = (spec: V1PodSpec): PodSpec => JSON.parse(JSON.stringify(spec));

/** A pod with this spec. A volume that a StatefulSet would add becomes an empty folder. */
export function standalonePod(namespace: string, spec: PodSpec): Manifest<Pod> {
  const volumes = spec.volumes ?? [];
  const mounted = spec.containers.flatMap(({ volumeMounts = [] }) => volumeMounts.map(({ name }) => name));
  const missing = mounted.filter((mount) => volumes.every(({ name }) => name !== mount));
  return {
    metadata: { namespace, name: `pod-${randomUUID()}` },
    spec: { ...spec, volumes: [...volumes, ...missing.map((name) => ({ name, emptyDir: {} }))] },
  };
}
