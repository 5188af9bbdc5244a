import type { V1PersistentVolume, V1StorageClass } from '@kubernetes/client-node';
import { Deployment, PersistentVolumeClaim, Pod } from '../../../src/controllers/built-in-kinds.ts';
import {
  builtInKind,
  type Client,
  isAlreadyExists,
  isConflict,
  isNotFound,
  type Kind,
  type KubeObject,
  type ObjectKey,
  type ObjectOf,
} from '../../../src/runtime/index.ts';

export const StorageClass = builtInKind<V1StorageClass>({
  group: 'storage.k8s.io',
  version: 'v1',
  kind: 'StorageClass',
  plural: 'storageclasses',
  scope: 'Cluster',
});
export const PersistentVolume = builtInKind<V1PersistentVolume>({
  group: '',
  version: 'v1',
  kind: 'PersistentVolume',
  plural: 'persistentvolumes',
  scope: 'Cluster',
});

const now = (): string => new Date().toISOString().replace(/\.\d+Z$/, 'Z');

const isReady = ({ status }: ObjectOf<typeof Pod>): boolean =>
  status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false;

/**
 * Plays what an API server with kube-controller-manager lacks, for one namespace: a kubelet whose pods become ready at
 * once, the controller of Deployments, a provisioner of volumes, and external-resizer with the kubelet's part of a
 * growth, each as the real one writes.
 */
export class PlayedCluster {
  readonly #client: Client;
  readonly #namespace: string;
  /** Claims, by name, that get no volume yet. */
  readonly withheld = new Set<string>();

  constructor(client: Client, namespace: string) {
    this.#client = client;
    this.#namespace = namespace;
  }

  /** All that is due: volumes for claims, pods that run, Deployments that are complete. */
  async play(): Promise<void> {
    await this.provision();
    await this.runPods();
    await this.rollOut();
  }

  async claim(name: string): Promise<PersistentVolumeClaim> {
    return this.#client.get(PersistentVolumeClaim, this.#key(name));
  }

  /** Gives each claim a volume of just its size (external-provisioner, and the controller of volumes that binds them). */
  async provision(): Promise<void> {
    const { items } = await this.#client.list(PersistentVolumeClaim, { namespace: this.#namespace });
    for (const claim of items.filter(({ status }) => status?.phase !== 'Bound')) {
      if (this.withheld.has(claim.metadata.name)) continue;
      const name = this.#volumeName(claim.metadata.name);
      const storage = claim.spec?.resources?.requests?.storage ?? '';
      await this.#unlessGone(async () => {
        await this.#client
          .create(PersistentVolume, {
            metadata: { name },
            spec: {
              capacity: { storage },
              accessModes: ['ReadWriteOnce'],
              persistentVolumeReclaimPolicy: 'Retain',
              csi: { driver: 'played.example.com', volumeHandle: name },
              claimRef: { namespace: this.#namespace, name: claim.metadata.name, uid: claim.metadata.uid },
            },
          })
          .catch((error: unknown) => {
            if (!isAlreadyExists(error)) throw error;
          });
        await this.#merge(PersistentVolumeClaim, claim.metadata.name, { spec: { volumeName: name } });
        const status = { phase: 'Bound', accessModes: ['ReadWriteOnce'], capacity: { storage } };
        await this.#mergeStatus(PersistentVolumeClaim, claim.metadata.name, status);
      });
    }
  }

  /** The kubelet has started every pod, and found it ready. */
  async runPods(): Promise<void> {
    const { items } = await this.#client.list(Pod, { namespace: this.#namespace });
    for (const pod of items) {
      const { metadata } = pod;
      if (metadata.deletionTimestamp !== undefined || isReady(pod)) continue;
      const conditions = [{ type: 'Ready', status: 'True', lastTransitionTime: now() }];
      await this.#unlessGone(() =>
        this.#mergeStatus(Pod, metadata.name, { phase: 'Running', startTime: now(), conditions }),
      );
    }
  }

  /** A pod is not ready any more. */
  async breakPod(name: string): Promise<void> {
    const conditions = [{ type: 'Ready', status: 'False', lastTransitionTime: now() }];
    await this.#mergeStatus(Pod, name, { conditions });
  }

  /** The controller of Deployments has seen each, and its pods are there and ready. */
  async rollOut(): Promise<void> {
    const { items } = await this.#client.list(Deployment, { namespace: this.#namespace });
    for (const { metadata, spec, status } of items) {
      const replicas = spec?.replicas ?? 0;
      const observedGeneration = metadata.generation ?? 0;
      const isDone = status?.observedGeneration === observedGeneration && (status.availableReplicas ?? 0) === replicas;
      if (isDone) continue;
      const counts = { replicas, updatedReplicas: replicas, readyReplicas: replicas, availableReplicas: replicas };
      await this.#unlessGone(() => this.#mergeStatus(Deployment, metadata.name, { observedGeneration, ...counts }));
    }
  }

  /** external-resizer has begun (`markControllerResizeInProgress`), the storage has grown, and it says so. */
  async growVolume(name: string): Promise<void> {
    const claim = await this.claim(name);
    const storage = claim.spec?.resources?.requests?.storage ?? '';
    const resizing = { type: 'Resizing', status: 'True', lastTransitionTime: now(), lastProbeTime: null };
    await this.#mergeStatus(PersistentVolumeClaim, name, {
      conditions: [resizing],
      allocatedResources: { storage },
      allocatedResourceStatuses: { storage: 'ControllerResizeInProgress' },
    });
    const body = { spec: { capacity: { storage } } };
    await this.#client.patch(PersistentVolume, { name: this.#volumeName(name) }, { type: 'merge', body });
    await this.#mergeStatus(PersistentVolumeClaim, name, {
      conditions: [
        resizing,
        {
          type: 'FileSystemResizePending',
          status: 'True',
          lastTransitionTime: now(),
          lastProbeTime: null,
          message: 'Waiting for user to (re-)start a pod to finish file system resize of volume on node.',
        },
      ],
      allocatedResourceStatuses: { storage: 'NodeResizePending' },
    });
  }

  /** external-resizer is told by the driver that it cannot be (`markControllerExpansionInfeasible`). */
  async failToGrow(name: string, words: string): Promise<void> {
    await this.#mergeStatus(PersistentVolumeClaim, name, {
      conditions: [
        {
          type: 'ControllerResizeError',
          status: 'True',
          lastTransitionTime: now(),
          lastProbeTime: null,
          message: `failed to expand pvc with ${words}`,
        },
      ],
      allocatedResourceStatuses: { storage: 'ControllerResizeInfeasible' },
    });
  }

  /** The kubelet has grown the file system (`MarkFSResizeFinished`). */
  async growFileSystem(name: string): Promise<void> {
    const claim = await this.claim(name);
    const { storage = '' } = claim.status?.allocatedResources ?? {};
    await this.#mergeStatus(PersistentVolumeClaim, name, {
      capacity: { storage },
      conditions: null,
      allocatedResourceStatuses: null,
    });
  }

  /** Removes the volumes, which no namespace takes along. */
  async close(): Promise<void> {
    const { items } = await this.#client.list(PersistentVolume);
    for (const { metadata } of items.filter(({ spec }) => spec?.claimRef?.namespace === this.#namespace)) {
      const key = { name: metadata.name };
      await this.#unlessGone(async () => {
        await this.#client.patch(PersistentVolume, key, { type: 'merge', body: { metadata: { finalizers: null } } });
        await this.#client.delete(PersistentVolume, key);
      });
    }
  }

  #key(name: string): ObjectKey {
    return { namespace: this.#namespace, name };
  }

  readonly #volumeName = (claim: string): string => `${this.#namespace}-${claim}`;

  #merge<T extends KubeObject>(kind: Kind<T>, name: string, body: object): Promise<T> {
    return this.#client.patch(kind, this.#key(name), { type: 'merge', body });
  }

  #mergeStatus<T extends KubeObject>(kind: Kind<T>, name: string, status: object): Promise<T> {
    const patch = { type: 'merge', body: { status } } as const;
    return this.#client.patch(kind, this.#key(name), patch, { subresource: 'status' });
  }

  async #unlessGone(act: () => Promise<unknown>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (!isNotFound(error) && !isConflict(error)) throw error;
    }
  }
}
