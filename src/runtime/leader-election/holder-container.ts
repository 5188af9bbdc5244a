/**
 * The container that the holder of a Lease runs in: by it a standby recognises, in the status of the pod, that the
 * holder's process has ended.
 */
export interface HolderContainer {
  readonly namespace: string;
  readonly podName: string;
  readonly podUid: string;
  readonly containerName: string;
  /** As in the pod's status: `containerd://` and 64 hex digits. */
  readonly containerId: string;
  /**
   * What the holder has written into its termination message, and nobody else anywhere: by it one instance of the container
   * is told from all others.
   */
  readonly terminationToken: string;
}

/** Whether they are the same instance, and the same holder in it. */
export const isSameContainer = (one: HolderContainer | undefined, other: HolderContainer | undefined): boolean =>
  one?.podUid === other?.podUid &&
  one?.containerName === other?.containerName &&
  one?.containerId === other?.containerId &&
  one?.terminationToken === other?.terminationToken;

/** What is known of the containers that candidates run in. */
export interface HolderContainers {
  /**
   * The container of this process, as soon as it is certain; undefined where it never can be. Asked once, by a leader.
   *
   * @throws the signal's reason.
   */
  own(signal: AbortSignal): Promise<HolderContainer | undefined>;
  /**
   * Resolves when it is proven that every process of this container has ended; where there is no proof, never.
   *
   * @throws the signal's reason.
   */
  ended(container: HolderContainer, signal: AbortSignal): Promise<void>;
}

/** Where a holder says which container it runs in, and who it is: what a Lease's earlier holder wrote is still there. */
const annotation = 'leader-election.echoperator.io/holder';

/** What the annotation says of this holder; undefined if it speaks of another, or is none of ours. */
export function readHolderContainer(
  annotations: Readonly<Record<string, string>> | undefined,
  holder: string,
): HolderContainer | undefined {
  const said = parse(annotations?.[annotation]);
  if (said?.holderIdentity !== holder) return undefined;
  const { namespace, podName, podUid, containerName, containerId, terminationToken } = said;
  if (!isText(namespace) || !isText(podName) || !isText(podUid)) return undefined;
  if (!isText(containerName) || !isText(containerId) || !isText(terminationToken)) return undefined;
  return { namespace, podName, podUid, containerName, containerId, terminationToken };
}

/** The annotations with what this holder says of itself, or with nothing where it says nothing. */
export function writeHolderContainer(
  annotations: Readonly<Record<string, string>> = {},
  holderIdentity: string,
  container: HolderContainer | undefined,
): Readonly<Record<string, string>> {
  const { [annotation]: _, ...others } = annotations;
  if (container === undefined) return others;
  return { ...others, [annotation]: JSON.stringify({ holderIdentity, ...container }) };
}

const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';

function parse(text: string | undefined): Readonly<Record<string, unknown>> | undefined {
  if (text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}
