import type { PersistentVolumeClaim } from '../built-in-kinds.ts';
import { holds, isBound, ordinalOf } from './claims.ts';

/** A volume whose file system is still of the size before. */
export interface PendingVolume {
  readonly claim: string;
  readonly ordinal: number;
  /** Since when, in milliseconds since 1970; 0 where nobody said. */
  readonly sinceMs: number;
}

/** How far the volumes are on their way to a size. */
export interface Growth {
  /** The claims that have not that much yet; none: they are there. One without a volume grows when it has one. */
  readonly unfinished: readonly string[];
  readonly pending: readonly PendingVolume[];
  /** What keeps volumes from growing, in the words of those who try. */
  readonly errors: readonly string[];
}

const errorConditions: readonly string[] = ['ControllerResizeError', 'NodeResizeError'];

/**
 * How far the claims are, by what external-resizer and the kubelet write into them: `status.capacity` is what a pod has;
 * `FileSystemResizePending` stands from when the volume has grown until the kubelet has grown the file system in it, which it
 * does under the running pod where the driver can, within seconds (k8s.io/kubernetes/pkg/volume/util/resize_util.go).
 */
export function growthOf(claims: readonly PersistentVolumeClaim[], size: string): Growth {
  const unfinished = claims.filter((claim) => isBound(claim) && !holds(claim, size));
  return {
    unfinished: unfinished.map(({ metadata }) => metadata.name),
    pending: unfinished.flatMap((claim) => {
      const condition = trueCondition(claim, (type) => type === 'FileSystemResizePending');
      if (condition === undefined) return [];
      const sinceMs = Date.parse(condition.lastTransitionTime ?? '') || 0;
      return [{ claim: claim.metadata.name, ordinal: ordinalOf(claim), sinceMs }];
    }),
    errors: unfinished.flatMap((claim) => {
      const condition = trueCondition(claim, (type) => errorConditions.includes(type));
      return condition === undefined ? [] : [`${claim.metadata.name}: ${condition.message || condition.type}`];
    }),
  };
}

const trueCondition = ({ status }: PersistentVolumeClaim, isWanted: (type: string) => boolean) =>
  status?.conditions?.find((condition) => condition.status === 'True' && isWanted(condition.type));
