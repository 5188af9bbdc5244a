/** One instance of a pod's container: a restart creates another one with the same name. */
export interface ContainerInstance {
  readonly namespace: string;
  readonly podName: string;
  readonly podUid: string;
  readonly containerName: string;
  /** As in the pod's status: `containerd://` and 64 hex digits. */
  readonly containerId: string;
  /** A uuid that this instance, and no other, has written into its termination message. */
  readonly terminationToken: string;
}

/**
 * The description of an instance, as a holder publishes it. It names the holder, because annotations outlive their
 * writer.
 */
export const formatDescription = (holderIdentity: string, container: ContainerInstance): string =>
  JSON.stringify({ holderIdentity, ...container });

/** The described instance; undefined if the description names another holder or is incomplete. */
export function parseDescription(description: string, holderIdentity: string): ContainerInstance | undefined {
  const fields = parseObject(description);
  if (fields?.holderIdentity !== holderIdentity) return undefined;
  const { namespace, podName, podUid, containerName, containerId, terminationToken } = fields;
  if (!isNonEmptyString(namespace) || !isNonEmptyString(podName) || !isNonEmptyString(podUid)) return undefined;
  if (!isNonEmptyString(containerName) || !isNonEmptyString(containerId)) return undefined;
  if (!isNonEmptyString(terminationToken)) return undefined;
  return { namespace, podName, podUid, containerName, containerId, terminationToken };
}

const isNonEmptyString = (value: unknown): value is string => typeof value === 'string' && value !== '';

function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}
