import type { Client } from '@echoperator/runtime';
import { PersistentVolume, PersistentVolumeClaim } from '@echoperator/runtime/kinds';

const now = (): string => new Date().toISOString().replace(/\.\d+Z$/, 'Z');

/** Conditions of other types belong to somebody else. */
const isOfResize = (type: string): boolean =>
  ['Resizing', 'FileSystemResizePending', 'ControllerResizeError', 'NodeResizeError'].includes(type);

/** Simulates the growth of a namespace's volumes step by step, with the writes of external-resizer and the kubelet. */
export class PlayedVolumes {
  readonly #client: Client;
  readonly #namespace: string;

  constructor(client: Client, namespace: string) {
    this.#client = client;
    this.#namespace = namespace;
  }

  /**
   * external-resizer has started (`markControllerResizeInProgress`) and reports that the storage has grown. It keeps
   * the error of an earlier try of the same size.
   */
  async growVolume(claimName: string): Promise<void> {
    const { spec, status } = await this.#claim(claimName);
    const storage = spec?.resources?.requests?.storage ?? '';
    const isRetry = status?.allocatedResources?.storage === storage;
    const others = (status?.conditions ?? []).filter(
      ({ type }) => !isOfResize(type) || (isRetry && type.endsWith('ResizeError')),
    );
    const resizing = { type: 'Resizing', status: 'True', lastTransitionTime: now(), lastProbeTime: null };
    await this.#mergeStatus(claimName, {
      conditions: [...others, resizing],
      allocatedResources: { storage },
      ...(!isRetry && { allocatedResourceStatuses: { storage: 'ControllerResizeInProgress' } }),
    });
    const body = { spec: { capacity: { storage } } };
    await this.#client.patch(PersistentVolume, { name: spec?.volumeName ?? '' }, { type: 'merge', body });
    await this.#mergeStatus(claimName, {
      conditions: [
        ...others,
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

  /** The driver reports that it cannot grow the volume (`markControllerExpansionInfeasible`). */
  async failToGrow(claimName: string, words: string): Promise<void> {
    const { spec, status } = await this.#claim(claimName);
    const storage = spec?.resources?.requests?.storage ?? '';
    await this.#mergeStatus(claimName, {
      conditions: [
        ...(status?.conditions ?? []).filter(({ type }) => !isOfResize(type)),
        {
          type: 'ControllerResizeError',
          status: 'True',
          lastTransitionTime: now(),
          lastProbeTime: null,
          message: `failed to expand pvc with ${words}`,
        },
      ],
      allocatedResources: { storage },
      allocatedResourceStatuses: { storage: 'ControllerResizeInfeasible' },
    });
  }

  /** The kubelet has grown the file system (`MarkFSResizeFinished`). */
  async growFileSystem(claimName: string): Promise<void> {
    const { status } = await this.#claim(claimName);
    const { storage = '' } = status?.allocatedResources ?? {};
    await this.#mergeStatus(claimName, {
      capacity: { storage },
      conditions: (status?.conditions ?? []).filter(({ type }) => !isOfResize(type)),
      allocatedResourceStatuses: null,
    });
  }

  #claim(name: string): Promise<PersistentVolumeClaim> {
    return this.#client.get(PersistentVolumeClaim, { namespace: this.#namespace, name });
  }

  #mergeStatus(name: string, status: object): Promise<PersistentVolumeClaim> {
    const key = { namespace: this.#namespace, name };
    const patch = { type: 'merge', body: { status } } as const;
    return this.#client.patch(PersistentVolumeClaim, key, patch, { subresource: 'status' });
  }
}
